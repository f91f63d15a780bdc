package identity

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/tulle-net/tulle/pkg/keepfile"
	"github.com/tulle-net/tulle/subnet"
)

// Path returns the path of the identity file in a state folder.
func Path(dir string) string { return filepath.Join(dir, "identity") }

// Check returns an error unless the file at path is a valid identity.
func Check(path string) error {
	_, err := load(path)
	return err
}

// secret is known to this installation only.
type secret [16]byte

// content is what the file holds.
type content struct {
	Version  int      `json:"version"`
	Secret   string   `json:"secret"`
	Hardware Hardware `json:"hardware"`
	Clone    *Clone   `json:"clone,omitempty"`
}

// Clone describes what this machine is a clone of.
type Clone struct {
	// Of is the shared ID.
	Of string `json:"of"`
	// Name and Addresses are those of the other machine.
	Name      string       `json:"name,omitempty"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
	Since     time.Time    `json:"since"`
}

const (
	version  = 1
	mostFile = 64 << 10
)

// load reads the file. It refuses anything that save does not write.
func load(path string) (content, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // O_NONBLOCK: a pipe is refused without waiting for a writer
	if err != nil {
		return content{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return content{}, err
	case !info.Mode().IsRegular():
		return content{}, errors.New("it is not a regular file")
	case info.Mode().Perm()&0o077 != 0:
		return content{}, fmt.Errorf("its mode %#o lets others than root read it", info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, mostFile+1))
	switch {
	case err != nil:
		return content{}, err
	case len(text) > mostFile:
		return content{}, fmt.Errorf("it is larger than %d bytes", mostFile)
	}
	return parse(text)
}

// parse reads the file's content. No error quotes it: it may be the secret.
func parse(text []byte) (content, error) {
	var c content
	if json.Unmarshal(text, &c) != nil { // the error could quote the secret
		return content{}, errors.New("it is not an identity in JSON")
	}
	if c.Version != version {
		return content{}, fmt.Errorf("its version is %d, not %d", c.Version, version)
	}
	if _, err := c.secret(); err != nil {
		return content{}, err
	}
	if len(c.Hardware.UUID) > mostUUID || !printable(c.Hardware.UUID) || len(c.Hardware.MACs) > mostMACs {
		return content{}, errors.New("its hardware has an invalid UUID or MAC address")
	}
	for _, mac := range c.Hardware.MACs {
		if _, err := net.ParseMAC(mac); err != nil {
			return content{}, errors.New("its hardware has an invalid UUID or MAC address")
		}
	}
	if c.Clone == nil {
		return c, nil
	}
	node := subnet.Attrs{Node: subnet.Node{ID: c.Clone.Of, Name: c.Clone.Name}}
	if err := node.Validate(); err != nil || c.Clone.Of == "" || len(c.Clone.Addresses) > len(subnet.Families) {
		return content{}, errors.New("its clone has no valid node")
	}
	return c, nil
}

func (c content) secret() (s secret, err error) {
	if len(c.Secret) != hex.EncodedLen(len(s)) {
		return s, errors.New("its secret is of the wrong length")
	}
	if _, err := hex.Decode(s[:], []byte(c.Secret)); err != nil || s == (secret{}) {
		return s, errors.New("its secret is not one of random hexadecimal digits")
	}
	return s, nil
}

func save(dir string, c content) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return keepfile.WriteAtomic(Path(dir), append(text, '\n'), 0o600)
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) })
}
