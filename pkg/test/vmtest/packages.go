package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// tag is the build tag of the files whose tests need the machine.
const tag = "vm"

// testPackage is a package with tests for the machine.
type testPackage struct {
	ImportPath   string
	Dir          string
	TestGoFiles  []string
	XTestGoFiles []string

	run string // -test.run
}

// findPackages returns the packages with tests to run: those with tagged tests, or
// with tests that run matches. A pattern without such packages is an error.
func findPackages(ctx context.Context, patterns []string, tags, run string) ([]testPackage, error) {
	var found []testPackage
	seen := make(map[string]bool)
	for _, pattern := range patterns {
		listed, err := list(ctx, pattern, tags)
		if err != nil {
			return nil, err
		}
		none := true
		for _, p := range listed {
			files := append(p.TestGoFiles, p.XTestGoFiles...)
			if p.run = run; run == "" {
				if p.run, err = taggedTests(p.Dir, files); err != nil {
					return nil, err
				}
			}
			if len(files) == 0 || p.run == "" {
				continue
			}
			none = false
			if !seen[p.ImportPath] {
				seen[p.ImportPath] = true
				found = append(found, p)
			}
		}
		if none {
			return nil, fmt.Errorf("%s: no tests in files with //go:build %s (-run REGEXP chooses others)", pattern, tag)
		}
	}
	return found, nil
}

func list(ctx context.Context, pattern, tags string) ([]testPackage, error) {
	cmd := goCommand(ctx, "list", "-tags", tags, "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles", pattern)
	out, err := output(cmd)
	if err != nil {
		return nil, err
	}
	var pkgs []testPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p testPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, err
		}
		pkgs = append(pkgs, p)
	}
}

// taggedTests returns a pattern for exactly the tests in files that build only with
// the tag, or "" if there are none.
func taggedTests(dir string, files []string) (string, error) {
	var names []string
	for _, file := range files {
		ordinary, err := build.Default.MatchFile(dir, file)
		if err != nil {
			return "", err
		}
		if ordinary {
			continue
		}
		src, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			return "", err
		}
		names = append(names, testNames(src)...)
	}
	if names == nil {
		return "", nil
	}
	return "^(" + strings.Join(names, "|") + ")$", nil
}

func testNames(f *ast.File) []string {
	var names []string
	for _, decl := range f.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || fn.Name.Name == "TestMain" {
			continue
		}
		for _, kind := range []string{"Test", "Fuzz", "Example"} {
			if strings.HasPrefix(fn.Name.Name, kind) {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names
}

// addTests builds the packages' tests and adds them to the image. It puts the
// testdata of each where the test looks for it: in its working directory.
func addTests(ctx context.Context, im *image, dir, tags string, pkgs []testPackage) ([]testRun, error) {
	var runs []testRun
	for i, p := range pkgs {
		binary := strconv.Itoa(i) + ".test"
		built := filepath.Join(dir, binary)
		// Leave out symbols: they are a third of a binary, and a panic's stack does not
		// need them.
		cmd := goCommand(ctx, "test", "-c", "-tags", tags, "-ldflags=-s -w", "-o", built, p.ImportPath)
		if _, err := output(cmd); err != nil {
			return nil, fmt.Errorf("building the tests of %s: %w", p.ImportPath, err)
		}
		run := testRun{
			Package: p.ImportPath,
			Binary:  "/tests/" + binary,
			Dir:     "/src/" + p.ImportPath,
			Run:     p.run,
		}
		if err := im.copyProgram(ctx, run.Binary, built); err != nil {
			return nil, err
		}
		im.addDir(run.Dir)
		data := filepath.Join(p.Dir, "testdata")
		if _, err := os.Stat(data); err == nil {
			if err := im.copyTree(run.Dir+"/testdata", data); err != nil {
				return nil, err
			}
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// goCommand returns a go command without cgo, so that the tests need no C library in
// the machine.
func goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return cmd
}
