package route

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/tulle-net/tulle/pkg/cloudroute"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
)

const (
	// partRoom is how many bytes new destinations may fill in one ConfigMap. An API server
	// stores at most 1 MiB in one.
	partRoom = 768 << 10
	// mostParts is how many ConfigMaps a ledger may have. The chart's Role names as many.
	mostParts = 16
)

// ConfigMaps is a ledger in ConfigMaps, with one key for each destination. Most clusters
// need one ConfigMap. What does not fit goes to further ones, the parts: NAME, NAME-1,
// NAME-2 and so on.
//
// A destination stays in its part, unless its entry grows and does not fit any more. Then
// it is written to another part before it is removed from the first one. After a crash,
// both parts may have it. All that they say is ours then, and the next write joins them.
type ConfigMaps struct {
	client    *kube.Client
	namespace string
	names     []string // of the parts
	room      int      // partRoom; tests have less

	mu   sync.Mutex
	last *layout // after the last Read or Write; nil during a Write and after a failed one
	seen int     // how many parts a Read or Write has had at most
}

// NewConfigMaps returns the ledger of a name.
func NewConfigMaps(client *kube.Client, namespace, name string) *ConfigMaps {
	return &ConfigMaps{client: client, namespace: namespace, names: PartNames(name), room: partRoom}
}

// PartNames returns the names that the ConfigMaps of a ledger may have. A Role has to allow
// get and patch of each.
func PartNames(name string) []string {
	all := []string{name}
	for i := 1; i < mostParts; i++ {
		all = append(all, fmt.Sprintf("%s-%d", name, i))
	}
	return all
}

// configMap is the object.
type configMap struct {
	Metadata kube.Meta         `json:"metadata"`
	Data     map[string]string `json:"data,omitempty"`
}

var configMapFormat = kube.JSON[configMap]("ConfigMap")

func (l *ConfigMaps) resource() string {
	return kube.Path("api/v1/namespaces", l.namespace, "configmaps")
}

// Ref implements Ledger.
func (l *ConfigMaps) Ref() controller.Ref {
	return controller.Ref{Kind: "ConfigMap", Namespace: l.namespace, Name: l.names[0]}
}

// Read implements Ledger. A ledger that does not exist is empty.
func (l *ConfigMaps) Read(ctx context.Context) (c Contents, err error) {
	read := newLayout()
	l.mu.Lock()
	seen := l.seen
	l.mu.Unlock()
	for i, name := range l.names {
		var object configMap
		err := kube.Get(ctx, l.client, kube.Path(l.resource(), name), configMapFormat, &object)
		if kube.Code(err) == http.StatusNotFound && i == 0 {
			read.parts = append(read.parts, part{}) // others may be there, or not be allowed
			continue
		}
		if kube.Code(err) == http.StatusNotFound {
			break
		}
		if kube.Code(err) == http.StatusForbidden && i > 0 && i >= seen { // by a Role that is older than the parts
			read.closed = fmt.Errorf("ConfigMap %s/%s: %w; allow get and patch of it in the Role", l.namespace, name, err)
			if read.parts[i-1].size >= l.room/2 { // there may be one; parts seldom shrink so far
				c.Problems = append(c.Problems, read.closed.Error())
			}
			break
		}
		if err != nil {
			return Contents{}, fmt.Errorf("read the ledger, ConfigMap %s/%s: %w", l.namespace, name, err)
		}
		read.parts = append(read.parts, part{version: object.Metadata.ResourceVersion})
		for _, key := range slices.Sorted(maps.Keys(object.Data)) {
			read.parts[i].size += len(key) + len(object.Data[key])
			e, err := cloudroute.ParseEntry(key, object.Data[key])
			if err != nil {
				c.Problems = append(c.Problems, fmt.Sprintf("ConfigMap %s/%s: %v; its routes count as foreign, delete the key", l.namespace, name, err))
				continue
			}
			read.add(i, e)
		}
	}
	if len(read.parts) == 1 && read.parts[0].version == "" {
		read.parts = nil
	}
	c.Entries, c.Version = read.take(), read.version()
	l.mu.Lock()
	l.last, l.seen = read, len(read.parts)
	l.mu.Unlock()
	return c, nil
}

// errReadAgain reports that a write is planned with another state than the last one.
var errReadAgain = errors.New("the ledger was read or written meanwhile; reading it again")

// Write implements Ledger. It requires each part that it changes as it was read. Entries
// for which there is no room are an error, but the others are written: the next Read shows
// them.
func (l *ConfigMaps) Write(ctx context.Context, version string, entries []cloudroute.Entry) (string, error) {
	l.mu.Lock()
	to := l.last
	l.last = nil
	l.mu.Unlock()
	if to == nil || to.version() != version {
		return "", errReadAgain
	}
	sets, drops, full := to.plan(entries, l.room)
	for _, changes := range []changes{sets, drops} {
		for _, i := range slices.Sorted(maps.Keys(changes)) {
			p := &to.parts[i]
			var err error
			if p.version, err = l.put(ctx, l.names[i], p.version, changes[i]); err != nil {
				return "", err
			}
		}
	}
	if full != nil {
		return "", fmt.Errorf("write the ledger, ConfigMap %s/%s: %w", l.namespace, l.names[0], full)
	}
	l.mu.Lock()
	l.last, l.seen = to, max(l.seen, len(to.parts))
	l.mu.Unlock()
	return to.version(), nil
}

// put changes keys of a part in a version, and returns its new version. Nil removes a key.
// A part without a version is created.
func (l *ConfigMaps) put(ctx context.Context, name, version string, data map[string]any) (string, error) {
	if version == "" {
		object := configMap{Data: make(map[string]string, len(data))}
		object.Metadata.Name = name
		for key, text := range data {
			if text, is := text.(string); is {
				object.Data[key] = text
			}
		}
		err := kube.Create(ctx, l.client, l.resource(), configMapFormat, &object)
		return object.Metadata.ResourceVersion, err
	}
	change, err := json.Marshal(map[string]any{"metadata": kube.Version{ResourceVersion: version}, "data": data})
	if err != nil {
		return "", err
	}
	var object configMap
	err = kube.Patch(ctx, l.client, kube.Path(l.resource(), name), kube.MergePatch, change, configMapFormat, &object)
	return object.Metadata.ResourceVersion, err
}

// version returns the versions of all parts.
func (l *layout) version() string {
	all := make([]string, len(l.parts))
	for i, p := range l.parts {
		all[i] = p.version
	}
	return strings.Join(all, ",")
}
