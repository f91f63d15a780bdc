package housetest

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// atTop are the files and folders at the top. Make builds programs into bin.
var atTop = []string{
	".ci", ".gitignore", "Documentation", "LICENSE", "Makefile", "README.md", "backend", "dist", "go.mod", "go.sum", "main.go", "network", "pkg", "subnet",
}

var top = rule{
	name: "the top has its files and folders, and no others",
	why: "package main has the version and the table of backends: what runs commands goes to pkg/command, " +
		"what the daemon needs to pkg/daemon. Programs are built into bin.",
	check: func(h house) (found []finding) {
		for _, f := range h {
			if first, _, _ := strings.Cut(f.path, "/"); !slices.Contains(atTop, first) {
				found = append(found, finding{f.path, "is at the top"})
			}
		}
		return found
	},
}

var packageDoc = rule{
	name: "every package has its doc comment",
	why: "one file of a package, doc.go or its main one, says above its package clause what the package owns: " +
		`"Package NAME …", or what a command does.`,
	check: func(h house) (found []finding) {
		documented := make(map[string]bool)
		for _, f := range h.code() {
			name := f.syntax.Name.Name
			doc := f.syntax.Doc.Text()
			good := !f.isTest() && doc != "" && (name == "main" || strings.HasPrefix(doc, "Package "+name+" "))
			documented[f.folder()] = documented[f.folder()] || good
		}
		for _, folder := range slices.Sorted(maps.Keys(documented)) {
			if !documented[folder] {
				found = append(found, finding{folder, "no file has the package's doc comment"})
			}
		}
		return found
	},
}

const maxLines = 500

var fileSize = rule{
	name: "no file is too long",
	why:  "a file of more than 500 lines is most often two rooms; tests and generated code may be longer.",
	check: func(h house) (found []finding) {
		for _, f := range h.code() {
			lines := strings.Count(f.text, "\n")
			if lines > maxLines && !f.isTest() && !ast.IsGenerated(f.syntax) {
				found = append(found, finding{f.path, fmt.Sprintf("%d lines", lines)})
			}
		}
		return found
	},
}

var noSkip = rule{
	name: "no test skips",
	why: "a skip hides: a test that needs root, a tool or a kernel fails without it, and make test brings it. " +
		"A fuzz target returns early on input that is none of its business.",
	check: func(h house) (found []finding) {
		for _, f := range h.code() {
			if !f.isTest() && !f.imports("testing") {
				continue
			}
			f.selections(func(s *ast.SelectorExpr) {
				if name := s.Sel.Name; name == "Skip" || name == "Skipf" || name == "SkipNow" {
					found = append(found, finding{f.at(s), "calls " + name})
				}
			})
		}
		return found
	},
}

var noSleep = rule{
	name: "no test sleeps",
	why: "a sleep is too long on a fast machine and too short on a busy one: wait for the condition, or for its signal. " +
		"Where time is the subject, bubbletest has a clock of its own, and <-time.After waits on it.",
	check: func(h house) (found []finding) {
		for _, f := range h.code() {
			if !f.isTest() && !f.imports("testing") {
				continue
			}
			f.uses("time", func(s *ast.SelectorExpr) {
				if s.Sel.Name == "Sleep" {
					found = append(found, finding{f.at(s), "uses time.Sleep"})
				}
			})
		}
		return found
	},
}

var bubbles = rule{
	name: "bubbles have one processor",
	why:  "two goroutines that find timers of one bubble due at the same time crash Go's race detector: use bubbletest.Test.",
	check: func(h house) (found []finding) {
		for _, f := range h.code() {
			if f.folder() == "pkg/test/bubbletest" {
				continue
			}
			f.uses("testing/synctest", func(s *ast.SelectorExpr) {
				if s.Sel.Name == "Test" {
					found = append(found, finding{f.at(s), "uses synctest.Test"})
				}
			})
		}
		return found
	},
}

var shown = rule{
	name: "pages name tests that there are",
	why:  "a page that says what shows a promise is believed: it names the test as `package.TestName`, and is to follow when that moves.",
	check: func(h house) (found []finding) {
		tests := make(map[string]bool)
		for _, f := range h.code() {
			for _, d := range f.syntax.Decls {
				if d, ok := d.(*ast.FuncDecl); ok && f.isTest() && d.Recv == nil {
					tests[path.Base(f.folder())+"."+d.Name.Name] = true
				}
			}
		}
		for _, f := range h {
			if path.Ext(f.path) != ".md" {
				continue
			}
			for i, line := range strings.Split(f.text, "\n") {
				for _, m := range testName.FindAllStringSubmatch(line, -1) {
					if !tests[m[1]] {
						found = append(found, finding{fmt.Sprintf("%s:%d", f.path, i+1), "there is no " + m[1]})
					}
				}
			}
		}
		return found
	},
}

var testName = regexp.MustCompile("`([a-z0-9]+\\.(?:Test|Fuzz|Benchmark)\\w+)`")

// The words are written so that the rule does not find them here.
var words = rule{
	name: "no file names the machine it was written on",
	why:  "paths of one machine and the hosts of package registries mean nothing on another: use relative paths, and a package's name.",
	check: func(h house) (found []finding) {
		for _, f := range h {
			small := strings.ToLower(f.text)
			for _, u := range unwanted {
				if !slices.ContainsFunc(u.needs, func(part string) bool { return strings.Contains(small, part) }) {
					continue // quicker than the pattern
				}
				for i, line := range strings.Split(f.text, "\n") {
					if m := u.pattern.FindStringSubmatch(line); m != nil {
						found = append(found, finding{fmt.Sprintf("%s:%d", f.path, i+1), "has " + m[1]})
					}
				}
			}
		}
		return found
	},
}

// unwanted are what no line may have. Where a pattern matches, the text has one of needs,
// whatever its case.
var unwanted = []struct {
	pattern *regexp.Regexp
	needs   []string
}{
	{regexp.MustCompile(`(?:^|[^\w.)}/-])(/(?:work/|farm/|root/go\b))`), []string{"work/", "farm/", "root/go"}},
	{regexp.MustCompile(`(?i)\b((?:proxy|sum)\.golang\.org|(?:deb|security|ftp|snapshot)\.debian\.org|registry\.(?:npmjs|yarnpkg)\.\w+)`), []string{"golang.org", "debian.org", "registry."}},
}
