package wgkey

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/tulle-net/tulle/pkg/keepfile"
)

// RequestPath returns the path of the file by which a person requests a rotation. It has
// the request's name, a random word. A request whose name is in the key file was served.
func RequestPath(dir string) string { return filepath.Join(dir, "wireguard-rotate") }

// Request requests that the node with this state folder replaces its key. It requests
// nothing if a rotation is under way, or requested before: then it returns its step, None
// if it has not begun, and false.
func Request(dir string) (step Step, requested bool, err error) {
	text, _, err := read(Path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return None, false, fmt.Errorf("%s does not exist: this node has no WireGuard key; a node of a network with the backend wireguard makes it when it starts", Path(dir))
	}
	var keys Keys
	if err == nil {
		_, keys, err = parse(text)
	}
	if err != nil {
		return None, false, fmt.Errorf("read WireGuard key %s: %w", Path(dir), err)
	}
	before, err := readRequest(dir)
	if err == nil && (keys.Step != None || before != "" && before != keys.Served) {
		return keys.Step, false, nil
	}
	// A file that is no request is replaced.
	return None, true, keepfile.WriteAtomic(RequestPath(dir), []byte(rand.Text()+"\n"), mode)
}

// readRequest returns the name of the last request, or "" if there was none.
func readRequest(dir string) (name string, err error) {
	text, _, err := read(RequestPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	name = strings.TrimSpace(string(text))
	if err == nil && (len(name) != len(rand.Text()) || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "") {
		err = errors.New("it is not the name of a request")
	}
	if err != nil {
		return "", fmt.Errorf("request to replace the WireGuard key %s: %w; delete it, and request again", RequestPath(dir), err)
	}
	return name, nil
}
