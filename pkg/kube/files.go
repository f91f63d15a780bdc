package kube

import (
	"crypto/sha256"
	"io/fs"
	"os"
)

// file is a file's state from just before it was read.
type file struct {
	path string
	info fs.FileInfo // nil if absent
	sum  [sha256.Size]byte
}

// fileAt returns the state of the file at path, and nothing for "".
func fileAt(path string) []file {
	if path == "" {
		return nil
	}
	f := file{path: path}
	if info, err := os.Stat(path); err == nil {
		if text, err := os.ReadFile(path); err == nil {
			f.info, f.sum = info, sha256.Sum256(text)
		}
	}
	return []file{f}
}

// changed returns the path of a file whose content has changed since the last call,
// or "". A kubelet rewrites all mounted files with every new token, which alone is no
// change.
func changed(files []file) (path string) {
	for i, before := range files {
		info, err := os.Stat(before.path)
		if err != nil || before.info != nil && sameFile(info, before.info) {
			continue
		}
		files[i] = fileAt(before.path)[0]
		if files[i].sum != before.sum {
			return before.path
		}
	}
	return ""
}

// sameFile reports whether both are the same file, not written in between.
func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && a.Mode() == b.Mode()
}
