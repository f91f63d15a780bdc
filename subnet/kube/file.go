package kube

import (
	"crypto/sha256"
	"io/fs"
	"os"
)

// file is one as it was a moment before it was read.
type file struct {
	path string
	info fs.FileInfo // nil where there was none
	sum  [sha256.Size]byte
}

// fileAt is the file at path, and nothing for none.
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

// changed is the path of one of those files that says something else now, once;
// "" where none does. A kubelet writes all that a pod has mounted anew with every
// token: that is no change.
func changed(files []file) (path string) {
	for i, before := range files {
		info, err := os.Stat(before.path)
		if err != nil || before.info != nil && same(info, before.info) {
			continue
		}
		files[i] = fileAt(before.path)[0]
		if files[i].sum != before.sum {
			return before.path
		}
	}
	return ""
}
