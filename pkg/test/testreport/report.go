package main

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// event is the part of a line of go test -json that the report uses.
type event struct {
	Action, Package, Test, Output string
}

// report counts the events of go test, package by package. It keeps a package's
// output until the package's end shows whether it is needed.
type report struct {
	out                     io.Writer
	open                    map[string]*pkg
	passed, failed, skipped int
	findings                []string
}

// progress matches the lines with which go test marks the steps of a test. The report
// leaves out only these lines of a failing package: in parallel tests, go test reports
// a race under the test that printed last.
var progress = regexp.MustCompile(`^\s*(=== (RUN|PAUSE|CONT|NAME) |--- PASS: )`)

// pkg is a package whose tests are not over.
type pkg struct {
	log     []event
	running map[string]bool
	skipped map[string]bool
	ran     int
	failed  int
}

func newReport(out io.Writer) *report {
	return &report{out: out, open: make(map[string]*pkg)}
}

func (r *report) add(e event) {
	if e.Package == "" { // output of the build
		fmt.Fprint(r.out, e.Output)
		return
	}
	p := r.open[e.Package]
	if p == nil {
		p = &pkg{running: make(map[string]bool), skipped: make(map[string]bool)}
		r.open[e.Package] = p
	}
	switch e.Action {
	case "output":
		p.log = append(p.log, e)
	case "run":
		p.running[e.Test] = true
		p.ran++
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.end(e.Package, e.Action == "fail")
			return
		}
		delete(p.running, e.Test)
		switch e.Action {
		case "pass":
			r.passed++
		case "fail":
			r.fail(p, e.Package+" "+e.Test)
		case "skip":
			p.skipped[e.Test] = true
			r.skipped++
			r.findings = append(r.findings, "skipped: "+e.Package+" "+e.Test)
		}
	}
}

// end closes a package. A panic or an exit cuts off the tests that still run. A failure
// of no test belongs to the package: it does not build, or it failed outside any test.
func (r *report) end(name string, failed bool) {
	p := r.open[name]
	delete(r.open, name)
	for _, test := range slices.Sorted(maps.Keys(p.running)) {
		r.fail(p, name+" "+test+", which did not finish")
	}
	if failed && p.failed == 0 {
		r.fail(p, name)
	}
	if !failed && p.ran == 0 && !p.says("[no test") {
		r.fail(p, name+", whose TestMain ran no test")
	}
	for i, e := range p.log {
		result := i == len(p.log)-1 // go test's own line about the package
		wanted := p.failed > 0 || p.skipped[e.Test]
		if result || wanted && !progress.MatchString(e.Output) {
			fmt.Fprint(r.out, e.Output)
		}
	}
}

func (r *report) fail(p *pkg, what string) {
	p.failed++
	r.failed++
	r.findings = append(r.findings, "failed: "+what)
}

// says reports whether the package's own lines contain text.
func (p *pkg) says(text string) bool {
	return slices.ContainsFunc(p.log, func(e event) bool {
		return e.Test == "" && strings.Contains(e.Output, text)
	})
}

// close ends the report of a go test that ended with err, and returns the exit
// code.
func (r *report) close(err error) int {
	for _, name := range slices.Sorted(maps.Keys(r.open)) {
		r.end(name, true)
	}
	if err != nil && r.failed == 0 {
		r.failed++
		r.findings = append(r.findings, "failed: go test: "+err.Error())
	}
	none := r.passed+r.failed+r.skipped == 0
	if none {
		r.findings = append(r.findings, "failed: no test ran")
	}
	for _, finding := range r.findings {
		fmt.Fprintln(r.out, finding)
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	if err == nil && (none || r.failed > 0 || r.skipped > 0) {
		return 1
	}
	return exitCode(err)
}
