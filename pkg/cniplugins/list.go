package cniplugins

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/keepfile"
)

const (
	// listName is beside the plugins. No runtime takes it for one.
	listName = ".tulle.sha256"
	// largestList is more than it ever is.
	largestList = 64 << 10
)

// list has the checksums of what was installed, as sha256sum writes and checks
// them.
type list struct {
	path string
	text []byte // as it is on the disk
	sums map[string]string
}

// readList reads the list at path, if there is one. A line that is none counts for
// nothing: then the plugin is taken to be another's.
func readList(path string) (*list, error) {
	l := &list{path: path, sums: make(map[string]string)}
	f, err := open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the list of installed CNI plugins %s: %w", path, err)
	}
	defer f.Close()
	if l.text, err = io.ReadAll(io.LimitReader(f, largestList)); err != nil {
		return nil, fmt.Errorf("read the list of installed CNI plugins: %w", err)
	}
	l.sums = parseList(l.text)
	return l, nil
}

func parseList(text []byte) map[string]string {
	sums := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if raw, err := hex.DecodeString(sum); ok && err == nil && len(raw) == 32 && isName(name) {
			sums[name] = strings.ToLower(sum)
		}
	}
	return sums
}

// isName reports whether a name is that of a file in a folder.
func isName(name string) bool {
	return fs.ValidPath(name) && name != "." && !strings.Contains(name, "/")
}

func formatList(sums map[string]string) []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&b, "%s  %s\n", sums[name], name)
	}
	return b.Bytes()
}

// write writes the list if it has changed.
func (l *list) write() error {
	text := formatList(l.sums)
	if bytes.Equal(text, l.text) {
		return nil
	}
	return keepfile.WriteAtomic(l.path, text, 0o644)
}
