package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tulle-net/tulle/pkg/kube/apitest"
	"github.com/tulle-net/tulle/subnet"
)

const prefix = "flannel.alpha.coreos.com"

// lab is a cluster, with a fake API server or a real one, and a store for each of its
// nodes. It is a storetest.Store: what the suite writes under a key, the lab writes
// to the Node of that podCIDR.
type lab struct {
	t       testing.TB
	url     string
	client  *http.Client // an admin's
	options Options      // of its stores, except the node's name
	config  string

	mu     sync.Mutex
	stores map[string]*Store
	dual   bool
}

func newLab(t testing.TB, url string, client *http.Client, o Options) *lab {
	l := &lab{t: t, url: url, client: client, options: o, config: filepath.Join(t.TempDir(), "net-conf.json"), stores: make(map[string]*Store)}
	l.options.ConfigFile, l.options.Prefix, l.options.Program = l.config, prefix, "tulled"
	return l
}

// newFakeLab returns a lab with a fake API server.
func newFakeLab(t testing.TB) (*lab, *apitest.Server) {
	f := apitest.New(t)
	return newLab(t, f.URL, f.Client(), Options{Server: f.URL}), f
}

// store returns a node's store.
func (l *lab) store(node string) *Store {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.stores[node]; s != nil {
		return s
	}
	o := l.options
	o.NodeName = node
	s, err := Open(o)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { s.Close() })
	l.stores[node] = s
	return s
}

// restart closes a node's store; the next use opens another.
func (l *lab) restart(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stores[node].Close()
	delete(l.stores, node)
}

// call makes a request as admin, and returns the answer.
func (l *lab) call(method, path, content string, body any) (code int, answer []byte) {
	l.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		l.t.Fatal(err)
	}
	r, err := http.NewRequest(method, l.url+"/api/v1/nodes"+path, bytes.NewReader(text))
	if err != nil {
		l.t.Fatal(err)
	}
	r.Header.Set("Content-Type", content)
	a, err := l.client.Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	defer a.Body.Close()
	answer, err = io.ReadAll(a.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return a.StatusCode, answer
}

// create creates a Node, unless it exists. Without cidrs the cluster gives it
// podCIDRs.
func (l *lab) create(node string, cidrs ...string) {
	l.t.Helper()
	spec := map[string]any{}
	if len(cidrs) > 0 {
		spec = map[string]any{"podCIDR": cidrs[0], "podCIDRs": cidrs}
	}
	code, answer := l.call(http.MethodPost, "", "application/json", map[string]any{"metadata": map[string]any{"name": node}, "spec": spec})
	if code != http.StatusCreated && code != http.StatusConflict {
		l.t.Errorf("making Node %s: %d %s", node, code, answer)
	}
}

func (l *lab) remove(node string) {
	l.t.Helper()
	if code, answer := l.call(http.MethodDelete, "/"+node, "application/json", nil); code != http.StatusOK {
		l.t.Errorf("deleting Node %s: %d %s", node, code, answer)
	}
}

// annotate writes annotations as a person would; nil removes one.
func (l *lab) annotate(node string, all map[string]*string) {
	l.t.Helper()
	code, answer := l.call(http.MethodPatch, "/"+node, "application/merge-patch+json", map[string]any{"metadata": map[string]any{"annotations": all}})
	if code != http.StatusOK {
		l.t.Errorf("annotating Node %s: %d %s", node, code, answer)
	}
}

// at returns the name of the Node with a key.
func (l *lab) at(key string) string {
	for _, s := range l.stores {
		s.book.mu.Lock()
		for _, e := range s.book.keys {
			for _, e := range e {
				if e.key == key || l.mask(e.key) == key {
					s.book.mu.Unlock()
					return e.name
				}
			}
		}
		s.book.mu.Unlock()
	}
	return ""
}

// mask removes the family that is off from a key. The cluster may give subnets of
// both.
func (l *lab) mask(key string) string {
	if !l.dual {
		key, _, _ = strings.Cut(key, "&")
	}
	return key
}

func (l *lab) Config(ctx context.Context, known subnet.Config) (subnet.Config, error) {
	known.Given = known != subnet.Config{}
	cfg, err := l.store("node-1").Config(ctx, known)
	cfg.Given = false // the only field that this store sets
	return cfg, err
}

func (l *lab) Acquire(ctx context.Context, claim subnet.Claim) (subnet.Lease, error) {
	l.create(claim.Node.Name)
	return l.store(claim.Node.Name).Acquire(ctx, claim)
}

func (l *lab) Hold(ctx context.Context, own subnet.Lease) error {
	return l.store(own.Node.Name).Hold(ctx, own)
}

func (l *lab) Watch(ctx context.Context, to func(subnet.Update)) error {
	return l.store("node-1").Watch(ctx, func(u subnet.Update) {
		l.mu.Lock()
		for i := range u.Leases {
			if !l.dual {
				u.Leases[i].Subnets[subnet.IPv6] = netip.Prefix{}
			}
		}
		for i := range u.Gone {
			u.Gone[i] = l.mask(u.Gone[i])
		}
		for i, b := range u.Bad {
			u.Bad[i] = &subnet.LeaseError{Key: l.mask(b.Key), Err: b.Err}
		}
		l.mu.Unlock()
		to(u)
	})
}

func (l *lab) SetConfig(config string) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dual = strings.Contains(config, "IPv6Network")
	// As a kubelet does it: the file is never half written.
	if err := os.WriteFile(l.config+".new", []byte(config), 0o644); err != nil {
		l.t.Fatal(err)
	}
	if err := os.Rename(l.config+".new", l.config); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) Write(key, value string) {
	l.t.Helper()
	l.mu.Lock()
	node := l.at(key)
	l.mu.Unlock()
	if node == "" {
		node = strings.ReplaceAll("written-"+key, ":", "-")
		if address, length, ok := strings.Cut(key, "-"); ok && strings.Contains(address, ".") {
			l.create(node, address+"/"+length)
		} else {
			node = key
			l.create(node, "10.5.255.0/24")
		}
	}
	var v struct{ PublicIP string }
	if json.Unmarshal([]byte(value), &v) != nil {
		v.PublicIP = value
	}
	if !strings.Contains(key, ".") {
		v.PublicIP = "rubbish"
	}
	yes := "true"
	l.annotate(node, map[string]*string{prefix + "/kube-subnet-manager": &yes, prefix + "/public-ip": &v.PublicIP})
}

func (l *lab) Delete(key string) {
	l.t.Helper()
	if !strings.Contains(key, ".") {
		key = "10.5.255.0-24"
	}
	l.mu.Lock()
	node := l.at(key)
	l.mu.Unlock()
	if node == "" {
		l.t.Errorf("no Node has %s", key)
		return
	}
	none := map[string]*string{}
	for _, name := range names {
		none[prefix+"/"+name] = nil
	}
	l.annotate(node, none)
}

// Gap breaks the watches of all stores.
func (l *lab) Gap() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.stores {
		for _, f := range []*follower{&s.itself, &s.others} {
			f.watch.Relist()
		}
	}
}

// claim returns the i-th node's claim.
func claim(i int) subnet.Claim {
	var c subnet.Claim
	c.PublicIP[subnet.IPv4] = netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
	c.BackendType = "vxlan"
	c.BackendData[subnet.IPv4] = fmt.Sprintf(`{"VNI":1,"VtepMAC":"02:00:00:00:00:%02x"}`, i)
	c.Node = subnet.Node{ID: fmt.Sprintf("id-%d", i), Name: fmt.Sprintf("node-%d", i), MTU: 1450}
	return c
}

// ip parses an address.
func ip(text string) netip.Addr { return netip.MustParseAddr(text) }
