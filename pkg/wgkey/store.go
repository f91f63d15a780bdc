package wgkey

import (
	"cmp"
	"errors"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// Store keeps the keys of a node, and the secrets that the kernel gets. It reads, takes
// over or makes the key when a backend first needs it, so that other nodes have no key
// file. It is the only writer of the key file, and safe for concurrent use.
type Store struct {
	Ring
	dir          string
	setting      string // the name of the setting of dir
	node         string // the node's ID
	predecessors []string

	// turn is held while the file is written. So readers of the keys do not wait for a disk.
	turn sync.Mutex

	mu       sync.Mutex // guards the following; it may be locked while turn is
	keys     Keys
	instance string // that has keys; "" until there are any
}

// NewStore returns the keys of a node with this ID, in the folder dir, which a setting
// names.
func NewStore(dir, setting, node string, predecessors ...string) *Store {
	return &Store{dir: dir, setting: setting, node: node, predecessors: predecessors}
}

// State returns what others may know of the keys of an instance of this node. Where the
// instance has no name, as in Kubernetes, the node's ID distinguishes the node from its
// copies.
func (s *Store) State(instance string) (State, error) {
	instance = cmp.Or(instance, s.node)
	if keys, known := s.of(instance); known {
		return keys.State(), nil
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	keys, err := s.open(instance)
	if err != nil {
		return State{}, err
	}
	return keys.State(), nil
}

// of returns the keys of an instance, if they are the present ones.
func (s *Store) of(instance string) (keys Keys, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys, s.instance == instance
}

// open makes the keys of an instance the present ones. The caller holds turn.
func (s *Store) open(instance string) (Keys, error) {
	if keys, known := s.of(instance); known {
		return keys, nil
	}
	if s.dir == "" {
		return Keys{}, errors.New("the node's WireGuard key needs a folder: set " + s.setting)
	}
	keys, err := Open(Path(s.dir), instance, s.predecessors...)
	if err != nil {
		return Keys{}, err
	}
	s.set(instance, keys)
	return keys, nil
}

// set makes keys, which are in the file, the present ones.
func (s *Store) set(instance string, keys Keys) {
	s.Add(keys.Current)
	s.Add(keys.Successor)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.instance = keys, instance
}

// Rotate takes the step that is due, and reports whether there was one. It writes the
// key file before anything else learns of the step. After an error, the step is not taken.
func (s *Store) Rotate(instance string, f Facts) (changed bool, err error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	instance = cmp.Or(instance, s.node)
	before, err := s.open(instance)
	if err != nil {
		return false, err
	}
	var unreadable error // which does not stop a rotation that is under way
	f.Request, unreadable = readRequest(s.dir)
	next, why := before.Next(f)
	if next == before.Step {
		return false, unreadable
	}
	keys := before.at(next, f)
	if err := keys.save(Path(s.dir), instance); err != nil {
		return false, err
	}
	s.set(instance, keys)
	switch next {
	case Move:
		klog.InfoS("Replacing the WireGuard key", "reason", why, "publicKey", keys.Current.Public().String(), "successor", keys.Successor.Public().String())
	case None:
		s.Forget(before.Current)
		klog.InfoS("Replaced the WireGuard key", "reason", why, "publicKey", keys.Current.Public().String(), "took", f.Now.Sub(before.Began).Round(time.Second).String())
	default:
		klog.InfoS("Next step of the replacement of the WireGuard key", "step", next.String(), "reason", why)
	}
	return true, nil
}

// at returns the keys in the next step.
func (k Keys) at(next Step, f Facts) Keys {
	now := f.Now.UTC().Round(0)
	switch next {
	case Move:
		k.Successor, k.Began, k.Served = New(), now, f.Request
	case None:
		return Keys{Current: k.Successor, Made: k.Began, Served: k.Served}
	}
	k.Step, k.Since = next, now
	return k
}
