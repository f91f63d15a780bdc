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
	// partRoom is the size in bytes up to which a ConfigMap gets new destinations. An API
	// server stores at most 1 MiB in one.
	partRoom = 768 << 10
	// mostParts is the maximum number of ConfigMaps of a ledger. The chart's Role names as
	// many.
	mostParts = 16
)

// ConfigMaps is a ledger in ConfigMaps, with one key for each destination. The ConfigMaps are
// its parts: NAME, NAME-1, NAME-2 and so on. Most clusters need only the first one.
//
// A destination stays in its part until its entry grows too large for it. Then a write adds
// the entry to another part before it removes the entry from the first one. After a crash,
// both parts may have the destination. Then the routes of both entries are ours, and the next
// write joins them.
type ConfigMaps struct {
	client    *kube.Client
	namespace string
	names     []string // of the parts
	room      int      // partRoom, or less in tests

	mu   sync.Mutex
	last *layout // after the last Read or Write; nil during a Write and after a failed one
	seen int     // the number of parts in the last Read, or more after a Write
}

// NewConfigMaps returns the ledger of a name.
func NewConfigMaps(client *kube.Client, namespace, name string) *ConfigMaps {
	return &ConfigMaps{client: client, namespace: namespace, names: PartNames(name), room: partRoom}
}

// PartNames returns the names of all ConfigMaps that a ledger may have. A Role must allow get
// and patch of each.
func PartNames(name string) []string {
	all := []string{name}
	for i := 1; i < mostParts; i++ {
		all = append(all, fmt.Sprintf("%s-%d", name, i))
	}
	return all
}

// configMap is a ConfigMap of the API.
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

// Read implements Ledger. It returns an empty ledger if no ConfigMap exists.
func (l *ConfigMaps) Read(ctx context.Context) (c Contents, err error) {
	read := newLayout()
	l.mu.Lock()
	seen := l.seen
	l.mu.Unlock()
	for i, name := range l.names {
		var object configMap
		err := kube.Get(ctx, l.client, kube.Path(l.resource(), name), configMapFormat, &object)
		if kube.Code(err) == http.StatusNotFound && i == 0 {
			read.parts = append(read.parts, part{}) // further parts may exist
			continue
		}
		if kube.Code(err) == http.StatusNotFound {
			break
		}
		if kube.Code(err) == http.StatusForbidden && i > 0 && i >= seen { // the Role of an earlier version
			read.closed = fmt.Errorf("ConfigMap %s/%s: %w; allow get and patch of it in the Role", l.namespace, name, err)
			if read.parts[i-1].size >= l.room/2 { // this part may exist; a smaller one before it has probably never been full
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

// errReadAgain reports that a write was planned with an older state than the last one.
var errReadAgain = errors.New("the ledger was read or written meanwhile; reading it again")

// Write implements Ledger. It fails if a part that it changes is no longer in the version that
// was read. If there is no room for some entries, it writes the others, which the next Read
// returns, and fails.
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

// put changes keys of a part, and returns the part's new version. It fails if the part is no
// longer in the given version. It creates a part without a version. Nil removes a key.
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
