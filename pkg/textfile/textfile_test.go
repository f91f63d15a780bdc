package textfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReadRefusesAllButSmallFiles: neither a pipe nor a folder blocks the reader.
func TestReadRefusesAllButSmallFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.WriteFile(at("fits"), make([]byte, largest), 0o644), os.WriteFile(at("large"), make([]byte, largest+1), 0o644),
		os.Mkdir(at("folder"), 0o755), syscall.Mkfifo(at("pipe"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, why := range map[string]string{"large": "more than 1048576 bytes", "folder": "not a regular file", "pipe": "not a regular file", "none": "no such file"} {
		if _, err := Read(at(name)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %s", name, err, why)
		}
	}
	if text, err := Read(at("fits")); err != nil || len(text) != largest {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}
