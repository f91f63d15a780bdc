// Package archivetest reads the archives that tulle's programs and builds write.
package archivetest

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"testing"
)

// File is a file in an archive.
type File struct {
	*tar.Header
	Text string
}

// Unpack returns the files of a gzipped tar archive, in order.
func Unpack(t testing.TB, path string) (files []File) {
	t.Helper()
	packed, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	unzipped, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, File{header, string(text)})
	}
}

// Texts returns the contents of an archive's files by name.
func Texts(t testing.TB, path string) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	for _, f := range Unpack(t, path) {
		texts[f.Name] = f.Text
	}
	return texts
}
