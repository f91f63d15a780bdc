package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// image is the contents of the machine's root: files by their absolute path. It creates
// their folders itself.
type image struct {
	files map[string]imageFile
	dirs  map[string]bool
}

type imageFile struct {
	perm fs.FileMode
	data []byte
}

func newImage() *image {
	return &image{files: make(map[string]imageFile), dirs: make(map[string]bool)}
}

func (im *image) add(name string, perm fs.FileMode, data []byte) {
	im.files[name] = imageFile{perm, data}
	im.addDir(path.Dir(name))
}

func (im *image) addDir(name string) {
	for ; name != "/" && !im.dirs[name]; name = path.Dir(name) {
		im.dirs[name] = true
	}
}

// copy adds a file of this host. It follows a symbolic link.
func (im *image) copy(name, from string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	im.add(name, info.Mode(), data)
	return nil
}

// copyTree adds a folder of this host with all that is in it.
func (im *image) copyTree(name, from string) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return im.copy(path.Join(name, strings.TrimPrefix(p, from)), p)
	})
}

// library matches a path in the output of ldd, with or without a name before it.
var library = regexp.MustCompile(`(?m)^\t(?:\S+ => )?(/\S+) \(0x`)

// copyProgram adds a program of this host and the shared libraries it needs.
func (im *image) copyProgram(ctx context.Context, name, from string) error {
	if err := im.copy(name, from); err != nil {
		return err
	}
	// ldd fails for a statically linked program, which needs no library.
	out, _ := exec.CommandContext(ctx, "ldd", from).Output()
	for _, m := range library.FindAllStringSubmatch(string(out), -1) {
		if err := im.copy(m[1], m[1]); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes the image as an archive that the kernel unpacks. The archive is not
// compressed, because the emulated processor decompresses more slowly than it reads.
func (im *image) writeFile(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	if err := im.write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

func (im *image) write(w io.Writer) error {
	c := cpioWriter{w: w}
	// In sorted order, a folder is before its contents.
	for _, name := range slices.Sorted(maps.Keys(im.dirs)) {
		c.dir(strings.TrimPrefix(name, "/"))
	}
	for _, name := range slices.Sorted(maps.Keys(im.files)) {
		f := im.files[name]
		c.file(strings.TrimPrefix(name, "/"), f.perm, f.data)
	}
	return c.close()
}

// addSystem adds the remaining files of a machine: its first process, the tools, and
// the few files that programs expect.
func addSystem(ctx context.Context, im *image, orders job, tools []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := im.copyProgram(ctx, guestInit, self); err != nil {
		return err
	}
	for _, tool := range tools {
		name, program, renamed := strings.Cut(tool, "=")
		if !renamed {
			program = tool
		}
		from, err := exec.LookPath(program)
		if err != nil {
			return fmt.Errorf("%w: install the package it is in, or leave it out of -tools", err)
		}
		to := from
		if renamed {
			to = "/usr/local/bin/" + name
		}
		if err := im.copyProgram(ctx, to, from); err != nil {
			return err
		}
	}
	text, err := json.Marshal(orders)
	if err != nil {
		return err
	}
	im.add(guestJob, 0o644, text)
	im.add("/etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\n"))
	im.add("/etc/group", 0o644, []byte("root:x:0:\n"))
	im.add("/etc/hosts", 0o644, []byte("127.0.0.1 localhost\n::1 localhost\n"))
	im.addDir("/root")
	for _, m := range guestMounts {
		im.addDir(m.target)
	}
	// ip has the names of protocols and tables in one of these, depending on its version.
	for _, names := range []string{"/etc/iproute2", "/usr/share/iproute2"} {
		if _, err := os.Stat(names); err == nil {
			if err := im.copyTree(names, names); err != nil {
				return err
			}
		}
	}
	return nil
}
