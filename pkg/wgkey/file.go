package wgkey

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/keepfile"
)

// Path returns the path of the key file in a state folder.
func Path(dir string) string { return filepath.Join(dir, "wireguard-key") }

// Keys are the keys of a node, as its key file has them.
type Keys struct {
	Current   Private   // in all steps but Return the key of the first device
	Made      time.Time // when Current was made
	Served    string    // the request that began the last rotation
	Step      Step
	Successor Private   // replaces Current; zero in the step None
	Began     time.Time // when the rotation began
	Since     time.Time // when its present step began
}

// content is the content of the key file.
type content struct {
	Version  int       `json:"version"`
	Instance string    `json:"instance"`
	Private  string    `json:"private_key"`
	Made     time.Time `json:"made,omitzero"` // absent in files of older versions
	Served   string    `json:"served_request,omitempty"`
	Rotation *rotation `json:"rotation,omitempty"`
}

// rotation is the part of the file about a rotation that is under way.
type rotation struct {
	Step      string    `json:"step"`
	Successor string    `json:"private_key"`
	Began     time.Time `json:"began"`
	Since     time.Time `json:"since"`
}

const (
	version  = 1
	mostFile = 4 << 10
)

// Open returns the keys of the installation called instance from the file at path.
// Without that file, it takes over the first valid key of predecessors, which are files
// that contain only a key, or makes a new key. It also makes a new key if the file
// belongs to another instance, because this machine's disk is then a copy of that
// one's. An invalid file is an error, because the peers know the key that it had.
func Open(path, instance string, predecessors ...string) (Keys, error) {
	text, modified, err := read(path)
	fresh := Keys{Made: time.Now().UTC().Round(0)}
	fresh.Served, _ = readRequest(filepath.Dir(path)) // it was about an earlier key
	switch {
	case err == nil:
		c, keys, err := parse(text)
		if err != nil {
			return Keys{}, fmt.Errorf("WireGuard key %s: %w; restore it from a backup, or delete it: the node then makes a new key, which its peers learn", path, err)
		}
		if keys.Made.IsZero() {
			keys.Made = modified
		}
		if c.Instance == instance {
			return keys, protect(path)
		}
		klog.InfoS("WireGuard key belongs to the machine of which this one is a copy; making a new key", "path", path)
		fresh.Current = New()
		return fresh, fresh.save(path, instance)
	case !errors.Is(err, fs.ErrNotExist):
		return Keys{}, fmt.Errorf("read WireGuard key %s: %w", path, err)
	}
	if fresh.Current = predecessor(predecessors); fresh.Current.IsZero() {
		fresh.Current = New()
	}
	return fresh, fresh.save(path, instance)
}

// predecessor returns the first valid key in those files.
func predecessor(paths []string) Private {
	for _, path := range paths {
		text, _, err := read(path)
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

// read returns the content of a regular file that is not large, and when it was written.
func read(path string) (text []byte, modified time.Time, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // O_NONBLOCK refuses a pipe without waiting for a writer
	if err != nil {
		return nil, modified, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, modified, err
	case !info.Mode().IsRegular():
		return nil, modified, errors.New("it is not a regular file")
	}
	text, err = io.ReadAll(io.LimitReader(f, mostFile+1))
	if err == nil && len(text) > mostFile {
		err = fmt.Errorf("it is larger than %d bytes", mostFile)
	}
	return text, info.ModTime(), err
}

func parse(text []byte) (c content, k Keys, err error) {
	if json.Unmarshal(text, &c) != nil { // the decoder's error could quote the secret
		return c, k, errors.New("it is not a key in JSON")
	}
	if c.Version != version {
		return c, k, fmt.Errorf("its version is %d, not %d", c.Version, version)
	}
	k = Keys{Made: c.Made, Served: c.Served}
	if k.Current, err = ParsePrivate(c.Private); err != nil || c.Rotation == nil {
		return c, k, err
	}
	step := slices.Index(steps[:], c.Rotation.Step)
	if step <= int(None) {
		return c, k, errors.New("the step of its rotation is unknown")
	}
	k.Step, k.Began, k.Since = Step(step), c.Rotation.Began, c.Rotation.Since
	k.Successor, err = ParsePrivate(c.Rotation.Successor)
	if err == nil && k.Successor == k.Current {
		err = errors.New("its rotation replaces the key by itself")
	}
	return c, k, err
}

// save writes the key file. After an error, the file is as it was.
func (k Keys) save(path, instance string) error {
	c := content{Version: version, Instance: instance, Private: k.Current.text(), Made: k.Made.UTC(), Served: k.Served}
	if k.Step != None {
		c.Rotation = &rotation{k.Step.String(), k.Successor.text(), k.Began.UTC(), k.Since.UTC()}
	}
	text, err := json.MarshalIndent(c, "", "  ")
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
