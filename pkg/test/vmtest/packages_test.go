package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTaggedTests(t *testing.T) {
	const tests = `package p

import "testing"

func TestMain(m *testing.M) {}
func TestOne(t *testing.T)  {}
func FuzzTwo(f *testing.F)  {}
func ExampleThree()         {}
func helper()               {}

type suite struct{}

func (suite) TestNot(t *testing.T) {}
`
	dir := t.TempDir()
	for name, text := range map[string]string{
		"tagged_test.go": "//go:build vm\n\n" + tests,
		"both_test.go":   "//go:build linux && vm\n\npackage p\n\nimport \"testing\"\n\nfunc TestFour(t *testing.T) {}\n",
		"plain_test.go":  tests,
		"helper_test.go": "//go:build vm\n\npackage p\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		files []string
		want  string
	}{
		{nil, ""},
		{[]string{"plain_test.go"}, ""},
		{[]string{"helper_test.go"}, ""},
		{[]string{"plain_test.go", "tagged_test.go"}, "^(TestOne|FuzzTwo|ExampleThree)$"},
		{[]string{"tagged_test.go", "both_test.go"}, "^(TestOne|FuzzTwo|ExampleThree|TestFour)$"},
	} {
		got, err := taggedTests(dir, test.files)
		if err != nil || got != test.want {
			t.Errorf("%q: %q, %v; want %q", test.files, got, err, test.want)
		}
	}
}
