package kube

import (
	"crypto/sha256"
	"io/fs"
	"os"
)

// file is a file as it was a moment before it was read.
type file struct {
	path string
	info fs.FileInfo // nil where there was none
	sum  [sha256.Size]byte
}

// fileAt returns the file at path, and nothing for no path.
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

// changed returns the path of a file whose contents differ since it was last called,
// "" if none do. With every token a kubelet rewrites all that a pod has mounted; that
// is no change.
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

// sameFile reports whether two looks at a path saw the same file, not written between.
func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && a.Mode() == b.Mode()
}
