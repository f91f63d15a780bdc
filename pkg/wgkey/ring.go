package wgkey

import (
	"fmt"
	"sync"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// Ring has the secrets to which the objects of a network refer. It is safe for
// concurrent use. Its text form contains no secret.
type Ring struct {
	mu      sync.Mutex
	private map[netstate.PublicKey]Private
	psk     map[netstate.PSK]hidden
}

// Add adds a private key, and returns the public key, which refers to it.
func (r *Ring) Add(key Private) netstate.PublicKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.private == nil {
		r.private = make(map[netstate.PublicKey]Private)
	}
	if !key.IsZero() {
		r.private[key.public] = key
	}
	return key.public
}

// Forget removes a private key.
func (r *Ring) Forget(key Private) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.private, key.public)
}

// AddPSK adds a preshared key in base64, and returns a reference to it.
func (r *Ring) AddPSK(text string) (netstate.PSK, error) {
	secret, err := parseSecret(text)
	if err != nil {
		return 0, fmt.Errorf("preshared key: %w", err)
	}
	ref := netstate.PSKOf(secret)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.psk == nil {
		r.psk = make(map[netstate.PSK]hidden)
	}
	if ref != 0 {
		r.psk[ref] = hide(secret)
	}
	return ref, nil
}

// PrivateKey returns the private key that belongs to a public one.
func (r *Ring) PrivateKey(public netstate.PublicKey) (key [32]byte, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.private[public]
	return p.secret.bytes(), ok
}

// PSK returns the preshared key that has a reference.
func (r *Ring) PSK(ref netstate.PSK) (key [32]byte, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	secret, ok := r.psk[ref]
	return secret.bytes(), ok
}

func (r *Ring) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d private and %d preshared keys", len(r.private), len(r.psk))
}

// GoString keeps the secrets out of %#v.
func (r *Ring) GoString() string { return r.String() }
