package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// TestModulesFollowTheirDependencies checks that each module is listed once, after
// those that it needs.
func TestModulesFollowTheirDependencies(t *testing.T) {
	needs := map[string][]string{
		"ipip":       {"ip_tunnel", "tunnel4"},
		"ip6_tunnel": {"tunnel6", "ip_tunnel"},
		"ip_tunnel":  nil,
		"tunnel4":    {"core"},
		"tunnel6":    {"core"},
		"ring_a":     {"ring_b"}, // no kernel has such a cycle, but closure must end
		"ring_b":     {"ring_a"},
		"broken":     {"missing"},
	}
	load := func(name string) (*module, error) {
		if name == "core" {
			return nil, nil // built in
		}
		n, ok := needs[name]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return &module{name: name, needs: n}, nil
	}
	for _, test := range []struct {
		wanted, want []string
		err          error
	}{
		{nil, nil, nil},
		{[]string{"core"}, nil, nil},
		{[]string{"ip_tunnel"}, []string{"ip_tunnel"}, nil},
		{[]string{"ipip"}, []string{"ip_tunnel", "tunnel4", "ipip"}, nil},
		{[]string{"ipip", "ip6-tunnel", "ipip"}, []string{"ip_tunnel", "tunnel4", "ipip", "tunnel6", "ip6_tunnel"}, nil},
		{[]string{"ring_a"}, []string{"ring_b", "ring_a"}, nil},
		{[]string{"broken"}, nil, fs.ErrNotExist},
	} {
		mods, err := closure(test.wanted, load)
		var got []string
		for _, m := range mods {
			got = append(got, m.name)
		}
		if !reflect.DeepEqual(got, test.want) || !errors.Is(err, test.err) {
			t.Errorf("closure(%q) = %q, %v; want %q, %v", test.wanted, got, err, test.want, test.err)
		}
	}
}

func TestParseModinfo(t *testing.T) {
	for _, test := range []struct {
		info string
		want []string
	}{
		{"", nil},
		{"license=GPL\x00depends=\x00", nil},
		{"license=GPL\x00depends=ip_tunnel,tunnel4\x00name=ipip\x00", []string{"ip_tunnel", "tunnel4"}},
		{"softdepends=no\x00depends=core", []string{"core"}},
	} {
		if got := parseModinfo([]byte(test.info)); !reflect.DeepEqual(got, test.want) {
			t.Errorf("parseModinfo(%q) = %q, want %q", test.info, got, test.want)
		}
	}
}

// TestShelfHasTheModulesOfAKernel checks which files of a kernel are modules.
func TestShelfHasTheModulesOfAKernel(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"modules.builtin":         "kernel/net/ipv6/built-in-one.ko\n",
		"kernel/net/plain-one.ko": "not ELF",
		"kernel/net/odd.ko.gz":    "",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := openShelf(dir)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := s.load(t.Context(), "built_in_one"); m != nil || err != nil {
		t.Errorf("built in: %v, %v", m, err)
	}
	for _, name := range []string{"missing", "odd", "plain_one"} {
		if m, err := s.load(t.Context(), name); err == nil {
			t.Errorf("%s: %v, want an error", name, m)
		}
	}
	data, err := readModule(t.Context(), s.files["plain_one"])
	if err != nil || string(data) != "not ELF" {
		t.Errorf("read %q, %v", data, err)
	}
}
