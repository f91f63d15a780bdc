package housetest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// rule is a rule for all files of the module.
type rule struct {
	name string
	// why says what to do instead.
	why   string
	check func(house) []finding
}

var rules = []rule{imports, helpers, netlink, top, packageDoc, fileSize, noSkip, noSleep, bubbles, shown, links, words, prose, settings}

// finding is a place that breaks a rule.
type finding struct {
	at   string // file, or file:line
	what string
}

// house is the module's files.
type house []file

// file is one file of the module.
type file struct {
	path string // from the module's root, with slashes
	text string // empty for a file that is not text
	// syntax is nil for a file that is not Go, or that go build ignores.
	syntax *ast.File
	tokens *token.FileSet
}

// TestHouse applies all rules to this module.
func TestHouse(t *testing.T) {
	h, err := open(os.DirFS("../../.."))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(h, func(f file) bool { return f.path == "pkg/test/housetest/house_test.go" && f.syntax != nil }) {
		t.Fatal("this very file was not found: the rules would hold for nothing")
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			found := r.check(h)
			for _, f := range found {
				t.Errorf("%s: %s", f.at, f.what)
			}
			if len(found) > 0 {
				t.Logf("The rule: %s", r.why)
			}
		})
	}
}

// open reads the files below root, except git's own and build output.
func open(root fs.FS) (house, error) {
	var h house
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name == ".git" || name == "bin" {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
			h = append(h, file{path: name}) // a page may show it
			return nil
		}
		f, err := parse(name, string(text))
		if err != nil {
			return err
		}
		h = append(h, f)
		return nil
	})
	return h, err
}

func parse(name, text string) (file, error) {
	f := file{path: name, text: text, tokens: token.NewFileSet()}
	if path.Ext(name) != ".go" || slices.ContainsFunc(strings.Split(name, "/"), ignoredByGo) {
		return f, nil
	}
	var err error
	f.syntax, err = parser.ParseFile(f.tokens, name, text, parser.ParseComments|parser.SkipObjectResolution)
	return f, err
}

func ignoredByGo(element string) bool {
	return element == "testdata" || strings.HasPrefix(element, ".") || strings.HasPrefix(element, "_")
}

// code returns the files that Go builds.
func (h house) code() house {
	var code house
	for _, f := range h {
		if f.syntax != nil {
			code = append(code, f)
		}
	}
	return code
}

func (f file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// folder returns the folder of the file's package, "." at the root.
func (f file) folder() string { return path.Dir(f.path) }

func (f file) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", f.path, f.tokens.Position(n.Pos()).Line)
}

// uses calls found for each selection of a name from the package that is imported
// from importPath.
func (f file) uses(importPath string, found func(*ast.SelectorExpr)) {
	for _, spec := range f.syntax.Imports {
		if importOf(spec) != importPath {
			continue
		}
		name := path.Base(importPath)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		f.selections(func(s *ast.SelectorExpr) {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == name {
				found(s)
			}
		})
	}
}

func (f file) selections(found func(*ast.SelectorExpr)) {
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			found(s)
		}
		return true
	})
}

func (f file) imports(importPath string) bool {
	return slices.ContainsFunc(f.syntax.Imports, func(spec *ast.ImportSpec) bool { return importOf(spec) == importPath })
}

func importOf(spec *ast.ImportSpec) string { return strings.Trim(spec.Path.Value, "\"`") }
