package main

import (
	"fmt"
	"io"
	"io/fs"
)

// cpioWriter writes an archive in the "newc" format, which the kernel unpacks
// (Documentation/driver-api/early-userspace/buffer-format.rst). For each file it
// holds an ASCII header, its name and its data, each padded to four bytes.
//
// Times, owners and device numbers are all zero, so that the same files make the same
// archive.
type cpioWriter struct {
	w   io.Writer
	ino int
	err error
}

const (
	modeDir     = 0o040000
	modeRegular = 0o100000
)

func (c *cpioWriter) dir(name string) {
	c.entry(name, modeDir|0o755, nil)
}

func (c *cpioWriter) file(name string, perm fs.FileMode, data []byte) {
	c.entry(name, modeRegular|int(perm.Perm()), data)
}

// close writes the trailer. It returns the first error of any write.
func (c *cpioWriter) close() error {
	c.entry("TRAILER!!!", 0, nil)
	return c.err
}

func (c *cpioWriter) entry(name string, mode int, data []byte) {
	// Each file needs an inode number of its own: equal numbers would mean hard links.
	c.ino++
	const nlink, check = 1, 0
	header := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		c.ino, mode, 0, 0, nlink, 0, len(data), 0, 0, 0, 0, len(name)+1, check, name)
	c.padded([]byte(header))
	c.padded(data)
}

func (c *cpioWriter) padded(b []byte) {
	c.write(b)
	c.write(make([]byte, -len(b)&3))
}

func (c *cpioWriter) write(b []byte) {
	if c.err == nil {
		_, c.err = c.w.Write(b)
	}
}
