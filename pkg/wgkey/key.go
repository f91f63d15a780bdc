// Package wgkey keeps the WireGuard key of a node, and the secrets that kernels get.
// Neither its errors nor the text forms of its types contain a secret.
package wgkey

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unique"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/keepfile"
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

func (p Private) String() string { return "private key of " + p.public.String() }

// GoString keeps the secret out of %#v.
func (p Private) GoString() string { return p.String() }

// MarshalJSON keeps the secret out of JSON.
func (p Private) MarshalJSON() ([]byte, error) { return json.Marshal(p.String()) }

// Path returns the path of the key file in a state folder.
func Path(dir string) string { return filepath.Join(dir, "wireguard-key") }

// content is the content of the key file.
type content struct {
	Version  int    `json:"version"`
	Instance string `json:"instance"`
	Private  string `json:"private_key"`
}

const (
	version  = 1
	mostFile = 4 << 10
)

// Open returns the key of the installation called instance from the file at path.
// Without that file, it takes over the first valid key of predecessors, which are files
// that contain only a key, or makes a new key. It also makes a new key if the file
// belongs to another instance, because this machine's disk is then a copy of that
// one's. An invalid file is an error, because the peers know the key that it had.
func Open(path, instance string, predecessors ...string) (Private, error) {
	text, err := read(path)
	switch {
	case err == nil:
		c, key, err := parse(text)
		if err != nil {
			return Private{}, fmt.Errorf("WireGuard key %s: %w; restore it from a backup, or delete it: the node then makes a new key, which its peers learn", path, err)
		}
		if c.Instance == instance {
			return key, protect(path)
		}
		klog.InfoS("WireGuard key belongs to the machine of which this one is a copy; making a new key", "path", path)
		key = New()
		return key, save(path, instance, key)
	case !errors.Is(err, fs.ErrNotExist):
		return Private{}, fmt.Errorf("read WireGuard key %s: %w", path, err)
	}
	key := predecessor(predecessors)
	if key.IsZero() {
		key = New()
	}
	return key, save(path, instance, key)
}

// predecessor returns the first valid key in those files.
func predecessor(paths []string) Private {
	for _, path := range paths {
		text, err := read(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var key Private
		if err == nil {
			key, err = ParsePrivate(strings.TrimSpace(string(text)))
		}
		if err == nil {
			klog.InfoS("Took over a WireGuard key", "path", path, "publicKey", key.Public().String())
			return key
		}
		klog.ErrorS(err, "Ignoring an unusable WireGuard key", "path", path)
	}
	return Private{}
}

// read returns the content of a regular file that is not large.
func read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // O_NONBLOCK refuses a pipe without waiting for a writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, mostFile+1))
	if err == nil && len(text) > mostFile {
		err = fmt.Errorf("it is larger than %d bytes", mostFile)
	}
	return text, err
}

func parse(text []byte) (c content, key Private, err error) {
	if json.Unmarshal(text, &c) != nil { // the decoder's error could quote the secret
		return c, key, errors.New("it is not a key in JSON")
	}
	if c.Version != version {
		return c, key, fmt.Errorf("its version is %d, not %d", c.Version, version)
	}
	key, err = ParsePrivate(c.Private)
	return c, key, err
}

func save(path, instance string, key Private) error {
	secret := key.secret.bytes()
	text, err := json.MarshalIndent(content{version, instance, base64.StdEncoding.EncodeToString(secret[:])}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write WireGuard key: %w", err)
	}
	return keepfile.WriteAtomic(path, append(text, '\n'), mode)
}

// mode is the mode of the file, which only root may read.
const mode = 0o600

// protect restores the file's mode, which a copy or a backup may have widened.
func protect(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm()&^mode != 0 {
		klog.InfoS("WireGuard key was open to other users; protecting it again", "path", path, "mode", info.Mode().Perm().String())
		err = os.Chmod(path, mode)
	}
	if err != nil {
		return fmt.Errorf("protect WireGuard key: %w", err)
	}
	return nil
}
