package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
)

// job is what the host requests from the machine.
type job struct {
	Modules []string // paths, in the order to load them in
	Tests   []testRun
	Timeout time.Duration // of the whole machine
}

type testRun struct {
	Package string
	Binary  string
	Dir     string
	Run     string // -test.run
}

// result is what the machine reports of one test binary that has ended.
type result struct {
	Package string
	Exit    int
	Passed  int // top-level tests, as Failed
	Failed  int
	Skipped int // includes subtests, because a skip at any level hides something
	Seconds float64
}

// marker is what a test binary writes before its own lines under -test.v=test2json. A
// line that a test prints cannot be mistaken for one of them.
const marker = '\x16'

// tally counts results in the output of a test binary. It forwards the output without
// the markers, in whole lines.
type tally struct {
	to     io.Writer
	result *result
	line   []byte
}

func (t *tally) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			t.line = append(t.line, p...)
			return n, nil
		}
		t.line = append(t.line, p[:i]...)
		p = p[i+1:]
		if err := t.flush(); err != nil {
			return 0, err
		}
	}
}

// flush ends a line, complete or not.
func (t *tally) flush() error {
	// The last line of a test may lack its newline. The marker is then inside the line.
	before, own, marked := bytes.Cut(t.line, []byte{marker})
	t.line = t.line[:0]
	if marked {
		t.count(string(own))
		// This line is for programs only: it names the test whose output follows.
		if len(before) == 0 && bytes.HasPrefix(own, []byte("=== NAME")) {
			return nil
		}
	}
	_, err := fmt.Fprintf(t.to, "%s%s\n", before, own)
	return err
}

func (t *tally) count(line string) {
	switch {
	case strings.HasPrefix(line, "--- PASS"):
		t.result.Passed++
	case strings.HasPrefix(line, "--- FAIL"):
		t.result.Failed++
	case strings.HasPrefix(strings.TrimSpace(line), "--- SKIP"):
		t.result.Skipped++
	}
}

// summary is the verdict on a machine's whole run.
type summary struct {
	passed, failed, skipped int
	lines                   []string // a line for each package
}

func (s summary) ok() bool { return s.passed > 0 && s.failed == 0 && s.skipped == 0 }

func (s summary) String() string {
	if s.skipped > 0 {
		return fmt.Sprintf("%d passed, %d failed, %d skipped", s.passed, s.failed, s.skipped)
	}
	return fmt.Sprintf("%d passed, %d failed", s.passed, s.failed)
}

// judge compares the reports with the job. A fault outside a test's own failure also
// counts. chosen reports that -run chose the tests, so some packages may have none. end
// is what ended the machine, unless it ended itself after the job.
func judge(tests []testRun, results []result, chosen bool, end error) summary {
	var s summary
	reported := make(map[string]result)
	for _, r := range results {
		reported[r.Package] = r
	}
	for _, t := range tests {
		r, ok := reported[t.Package]
		trouble := ""
		switch {
		case !ok:
			trouble = "the machine ended before its tests did"
		case r.Exit != 0 && r.Failed == 0:
			trouble = fmt.Sprintf("exit code %d", r.Exit)
		case r.Passed+r.Failed+r.Skipped == 0 && !chosen:
			trouble = "no test ran"
		}
		if trouble != "" {
			r.Failed++
			trouble = ": " + trouble
		}
		word := "ok"
		if r.Failed+r.Skipped > 0 {
			word = "FAIL"
		}
		s.passed += r.Passed
		s.failed += r.Failed
		s.skipped += r.Skipped
		s.lines = append(s.lines, fmt.Sprintf("%-4s  %s  %.2fs  %d passed, %d failed, %d skipped%s",
			word, t.Package, r.Seconds, r.Passed, r.Failed, r.Skipped, trouble))
	}
	if s.passed+s.failed+s.skipped == 0 {
		s.failed++
		s.lines = append(s.lines, "FAIL  no test ran")
	}
	if end != nil {
		s.failed = max(s.failed, 1)
		s.lines = append(s.lines, "FAIL  "+end.Error())
	}
	return s
}
