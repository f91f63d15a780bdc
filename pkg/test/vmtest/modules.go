package main

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// module is a kernel module, ready to be inserted.
type module struct {
	name  string
	data  []byte
	needs []string
}

// addModules adds the modules and all they need to the image. It returns their paths
// in the order in which they must be loaded.
func addModules(ctx context.Context, im *image, k kernel, wanted []string) ([]string, error) {
	s, err := openShelf(k.modules)
	if err != nil {
		return nil, err
	}
	mods, err := closure(wanted, func(name string) (*module, error) { return s.load(ctx, name) })
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, m := range mods {
		path := "/modules/" + m.name + ".ko"
		im.add(path, 0o644, m.data)
		paths = append(paths, path)
	}
	return paths, nil
}

// closure returns the wanted modules and all that they depend on, each once and after
// its dependencies. load returns nil for a module that is built into the kernel.
func closure(wanted []string, load func(name string) (*module, error)) ([]*module, error) {
	var order []*module
	seen := make(map[string]bool)
	var visit func(names []string) error
	visit = func(names []string) error {
		for _, name := range names {
			name = canonical(name)
			if seen[name] {
				continue
			}
			seen[name] = true
			m, err := load(name)
			if err != nil {
				return fmt.Errorf("module %s: %w", name, err)
			}
			if m == nil {
				continue
			}
			if err := visit(m.needs); err != nil {
				return fmt.Errorf("%w, which %s needs", err, name)
			}
			order = append(order, m)
		}
		return nil
	}
	return order, visit(wanted)
}

// canonical returns a module's name. The name of its file may contain dashes, but the
// module's name does not.
func canonical(name string) string { return strings.ReplaceAll(name, "-", "_") }

// dependencies returns the modules that a module needs, which are listed in the module
// itself. Debian's package has no modules.dep: depmod creates that when a kernel is
// installed.
func dependencies(ko []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(ko))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, errors.New("not a kernel module: it has no .modinfo")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	return parseModinfo(info), nil
}

// parseModinfo returns the names after "depends=" in a list of KEY=VALUE, each of
// which a NUL ends.
func parseModinfo(info []byte) []string {
	var names []string
	for entry := range strings.SplitSeq(string(info), "\x00") {
		if list, ok := strings.CutPrefix(entry, "depends="); ok {
			names = append(names, fields(list)...)
		}
	}
	return names
}

// shelf is a kernel's folder of modules, by the modules' names.
type shelf struct {
	files   map[string]string
	builtin map[string]bool
}

func openShelf(dir string) (*shelf, error) {
	s := &shelf{files: make(map[string]string), builtin: make(map[string]bool)}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if name, _, ok := strings.Cut(filepath.Base(path), ".ko"); ok {
			s.files[canonical(name)] = path
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	list, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return nil, err
	}
	for path := range strings.FieldsSeq(string(list)) {
		s.builtin[canonical(strings.TrimSuffix(filepath.Base(path), ".ko"))] = true
	}
	return s, nil
}

func (s *shelf) load(ctx context.Context, name string) (*module, error) {
	if s.builtin[name] {
		return nil, nil
	}
	path, ok := s.files[name]
	if !ok {
		return nil, errors.New("this kernel has no module of that name")
	}
	data, err := readModule(ctx, path)
	if err != nil {
		return nil, err
	}
	needs, err := dependencies(data)
	if err != nil {
		return nil, err
	}
	return &module{name, data, needs}, nil
}

// readModule returns a module's bytes. Debian 12's 6.1 has uncompressed modules, and
// 6.12 has compressed ones.
func readModule(ctx context.Context, path string) ([]byte, error) {
	switch filepath.Ext(path) {
	case ".ko":
		return os.ReadFile(path)
	case ".xz":
		if _, err := exec.LookPath("xz"); err != nil {
			return nil, fmt.Errorf("%w: apt-get install xz-utils", err)
		}
		return output(exec.CommandContext(ctx, "xz", "-dc", path))
	}
	return nil, fmt.Errorf("%s has an unsupported format: want .ko or .ko.xz", path)
}
