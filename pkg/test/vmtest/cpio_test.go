package main

import (
	"bytes"
	"errors"
	"io/fs"
	"reflect"
	"strconv"
	"testing"
)

type cpioEntry struct {
	name string
	mode int
	data string
}

// readCPIO reads an archive as the kernel does: it takes sizes from the header, and
// expects each part to be padded to four bytes.
func readCPIO(t *testing.T, b []byte) []cpioEntry {
	t.Helper()
	var entries []cpioEntry
	inodes := make(map[int]bool)
	at := 0
	take := func(n int) string {
		if at+n > len(b) {
			t.Fatalf("the archive ends at %d, want %d more", at, n)
		}
		s := string(b[at : at+n])
		at += n
		return s
	}
	pad := func() { take(-at & 3) }
	for {
		if magic := take(6); magic != "070701" {
			t.Fatalf("magic %q at %d", magic, at-6)
		}
		var field [13]int
		for i := range field {
			n, err := strconv.ParseUint(take(8), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			field[i] = int(n)
		}
		ino, mode, nlink, size, nameSize := field[0], field[1], field[4], field[6], field[11]
		name := take(nameSize)
		pad()
		data := take(size)
		pad()
		if name[nameSize-1] != 0 {
			t.Fatalf("the name %q does not end in NUL", name)
		}
		name = name[:nameSize-1]
		if name == "TRAILER!!!" {
			if at != len(b) {
				t.Errorf("%d bytes after the trailer", len(b)-at)
			}
			return entries
		}
		if inodes[ino] || nlink != 1 {
			t.Errorf("%s: inode %d with %d links is not a file of its own", name, ino, nlink)
		}
		inodes[ino] = true
		entries = append(entries, cpioEntry{name, mode, data})
	}
}

func TestCPIORoundTrip(t *testing.T) {
	var b bytes.Buffer
	c := cpioWriter{w: &b}
	want := []cpioEntry{{"d", 0o040755, ""}}
	c.dir("d")
	// These are all lengths of name and data that differ in their padding.
	for i := range 9 {
		name := "d/123456789"[:3+i]
		data := "abcdefghi"[:i]
		c.file(name, 0o640, []byte(data))
		want = append(want, cpioEntry{name, 0o100640, data})
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	if got := readCPIO(t, b.Bytes()); !reflect.DeepEqual(got, want) {
		t.Errorf("read back\n%v, want\n%v", got, want)
	}
}

func TestImageFoldersComeFirst(t *testing.T) {
	im := newImage()
	im.add("/a/b/c", 0o755, []byte("x"))
	im.add("/a.d", 0o644, nil)
	im.addDir("/proc")
	var b bytes.Buffer
	if err := im.write(&b); err != nil {
		t.Fatal(err)
	}
	want := []cpioEntry{
		{"a", 0o040755, ""},
		{"a/b", 0o040755, ""},
		{"proc", 0o040755, ""},
		{"a.d", 0o100644, ""},
		{"a/b/c", 0o100755, "x"},
	}
	if got := readCPIO(t, b.Bytes()); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%v, want\n%v", got, want)
	}
}

func TestImageReturnsWriteError(t *testing.T) {
	im := newImage()
	im.add("/a", 0o644, nil)
	if err := im.write(full{}); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("error %v, want %v", err, fs.ErrInvalid)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, fs.ErrInvalid }
