package identity

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/subnet"
)

// Options are what Open needs.
type Options struct {
	// Dir is the state folder. Without one, the identity is derived from the hardware.
	Dir string
	// Node has the ID and the name, from flags or from the machine.
	Node subnet.Node
	// Fix is the command that gives the machine its own ID.
	Fix      string
	Hardware Hardware
}

// Identity identifies this installation. Its methods are safe for concurrent use.
type Identity struct {
	options Options

	mu     sync.Mutex
	secret secret
	clone  *Clone // nil unless Fork has changed the node's ID
}

// Open reads the identity of this installation. It makes a new one if none exists, if the
// file is invalid, or if the file is from another machine.
func Open(o Options) *Identity {
	i := &Identity{options: o}
	if o.Dir == "" {
		i.secret = o.fallback()
		return i
	}
	c, err := load(Path(o.Dir))
	known := err == nil
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		klog.ErrorS(err, "Ignoring the invalid identity file; making a new identity", "path", Path(o.Dir))
	case known && !o.Hardware.isSameAs(c.Hardware):
		klog.InfoS("The state folder was copied from another machine; making a new identity", "path", Path(o.Dir))
		known = false
	}
	if known {
		i.secret, _ = c.secret() // load has checked it
		if c.Clone != nil && c.Clone.Of == o.Node.ID {
			i.clone = c.Clone
		}
		if (i.clone == nil) == (c.Clone == nil) && o.Hardware.equal(c.Hardware) {
			return i
		}
		if c.Clone != nil && i.clone == nil {
			klog.InfoS("This machine has its own ID now")
		}
	} else {
		i.secret = newSecret()
	}
	if err := i.save(); err != nil {
		klog.ErrorS(err, "Failed to save this node's identity; deriving it from the hardware")
		if !known {
			i.secret = o.fallback()
		}
	}
	return i
}

// newSecret returns a new secret.
func newSecret() (s secret) {
	_, _ = rand.Read(s[:]) // it never fails
	return s
}

// fallback derives a secret from the hardware, for a machine that cannot save one.
func (o Options) fallback() (s secret) {
	copy(s[:], derive([]byte(o.Node.ID), "tulle hardware", o.Hardware.UUID, strings.Join(o.Hardware.MACs, " ")))
	return s
}

// derive returns 32 bytes that depend on key and words, and do not reveal the key.
func derive(key []byte, words ...string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, w := range words {
		mac.Write([]byte(w))
		mac.Write([]byte{0})
	}
	return mac.Sum(nil)
}

// save writes the identity. The caller holds mu, or has not shared i yet.
func (i *Identity) save() error {
	if i.options.Dir == "" {
		return nil
	}
	return save(i.options.Dir, content{version, hex.EncodeToString(i.secret[:]), i.options.Hardware, i.clone})
}

// Node returns what this node publishes of its identity.
func (i *Identity) Node() subnet.Node {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.node()
}

// node is Node; the caller holds mu.
func (i *Identity) node() subnet.Node {
	n := i.options.Node
	n.Instance = hex.EncodeToString(derive(i.secret[:], "tulle instance")[:8])
	if i.clone != nil {
		shared := n.ID
		if len(shared) > subnet.MaxSharedID {
			shared = hex.EncodeToString(derive([]byte(shared), "tulle shared")[:16])
		}
		n.ID = subnet.CloneID(shared, hex.EncodeToString(derive(i.secret[:], "tulle clone", shared)[:8]))
	}
	return n
}

// Fork gives the node a new ID, because another machine has the same one, and returns the
// new Node. It logs an error that names both machines and the fix.
func (i *Identity) Fork(twin *subnet.TwinError, own subnet.Attrs) subnet.Node {
	i.mu.Lock()
	defer i.mu.Unlock()
	if twin.Copied || i.clone != nil {
		i.secret = newSecret()
	}
	other := twin.Lease
	i.clone = &Clone{Of: i.options.Node.ID, Name: other.Node.Name, Since: time.Now().UTC().Truncate(time.Second)}
	for _, ip := range other.PublicIP {
		if ip.IsValid() {
			i.clone.Addresses = append(i.clone.Addresses, ip)
		}
	}
	n := i.node()
	own.Node = n
	klog.ErrorS(nil, "Another machine has this machine's ID, as clones of one image do; continuing under a new ID",
		"node", own.Holder(), "other", other.Holder(), "otherLease", other.Key(), "fix", i.options.Fix)
	if err := i.save(); err != nil {
		klog.ErrorS(err, "Failed to save this node's new ID; the next start will make another one")
	}
	return n
}

// Clone returns what this machine is a clone of, or nil.
func (i *Identity) Clone() *Clone {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.clone == nil {
		return nil
	}
	c := *i.clone
	return &c
}

// Fix returns the command that gives the machine its own ID.
func (i *Identity) Fix() string { return i.options.Fix }

// Prove returns 16 bytes that only an installation with this secret can compute from
// a challenge.
func (i *Identity) Prove(challenge []byte) []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	return derive(i.secret[:], "tulle here", string(challenge))[:16]
}
