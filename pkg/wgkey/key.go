// Package wgkey keeps the WireGuard key of a node, replaces it, and has the secrets that
// kernels get.
// Neither its errors nor the text forms of its types contain a secret.
package wgkey

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"unique"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// Private is a private key. Its text form is that of its public key.
type Private struct {
	secret hidden
	public netstate.PublicKey
}

// hidden is a secret that fmt does not print, even in an unexported field of another
// type, where fmt does not call String. fmt follows a pointer to an array, but not one
// to an interface.
type hidden struct{ is unique.Handle[any] }

func hide(secret [32]byte) hidden { return hidden{unique.Make[any](secret)} }

// bytes returns the secret, or zeros if there is none.
func (h hidden) bytes() (secret [32]byte) {
	if h != (hidden{}) {
		secret, _ = h.is.Value().([32]byte)
	}
	return secret
}

// New returns a random key.
func New() Private {
	var secret [32]byte
	for {
		_, _ = rand.Read(secret[:]) // it never fails
		if k, err := of(secret); err == nil {
			return k
		}
	}
}

// of returns the key with these bytes, which it clamps as WireGuard does.
func of(secret [32]byte) (Private, error) {
	if secret == ([32]byte{}) {
		return Private{}, errors.New("it is all zeros")
	}
	secret[0] &= 248
	secret[31] = secret[31]&127 | 64
	k, err := ecdh.X25519().NewPrivateKey(secret[:])
	if err != nil {
		return Private{}, errors.New("it is not a private key")
	}
	return Private{hide(secret), netstate.PublicKeyOf([32]byte(k.PublicKey().Bytes()))}, nil
}

// ParsePrivate reads a key in WireGuard's format, which is base64.
func ParsePrivate(text string) (Private, error) {
	secret, err := parseSecret(text)
	if err != nil {
		return Private{}, err
	}
	return of(secret)
}

// parseSecret reads 32 bytes in base64. Its error does not quote them.
func parseSecret(text string) (secret [32]byte, err error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != len(secret) || len(text) != base64.StdEncoding.EncodedLen(len(secret)) {
		return secret, errors.New("it is not a WireGuard key, which has 44 characters of base64")
	}
	return [32]byte(raw), nil
}

// Public returns the public key.
func (p Private) Public() netstate.PublicKey { return p.public }

// IsZero reports whether p is the zero key.
func (p Private) IsZero() bool { return p == Private{} }

// text returns the secret in WireGuard's format.
func (p Private) text() string {
	secret := p.secret.bytes()
	return base64.StdEncoding.EncodeToString(secret[:])
}

func (p Private) String() string { return "private key of " + p.public.String() }

// GoString keeps the secret out of %#v.
func (p Private) GoString() string { return p.String() }

// MarshalJSON keeps the secret out of JSON.
func (p Private) MarshalJSON() ([]byte, error) { return json.Marshal(p.String()) }
