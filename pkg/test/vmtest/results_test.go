package main

import (
	"slices"
	"strings"
	"testing"
)

// TestTallyReadsOutputInPieces checks the counts and the output, in pieces of any size.
func TestTallyReadsOutputInPieces(t *testing.T) {
	const (
		output = "\x16=== RUN   TestA\n" +
			"--- FAIL: what a test prints is not what the binary says\n" +
			"no newline\x16--- PASS: TestA (0.00s)\n" +
			"\x16=== NAME  \n" +
			"\x16    --- PASS: TestB/sub (0.00s)\n" +
			"\x16    --- SKIP: TestB/skipped (0.00s)\n" +
			"\x16--- FAIL: TestB (0.00s)\n" +
			"\x16--- SKIP: TestC (0.00s)\n" +
			"the last words"
		want = "=== RUN   TestA\n" +
			"--- FAIL: what a test prints is not what the binary says\n" +
			"no newline--- PASS: TestA (0.00s)\n" +
			"    --- PASS: TestB/sub (0.00s)\n" +
			"    --- SKIP: TestB/skipped (0.00s)\n" +
			"--- FAIL: TestB (0.00s)\n" +
			"--- SKIP: TestC (0.00s)\n" +
			"the last words\n"
	)
	for size := 1; size <= len(output); size++ {
		var got strings.Builder
		var r result
		tally := &tally{to: &got, result: &r}
		for chunk := range slices.Chunk([]byte(output), size) {
			if n, err := tally.Write(chunk); n != len(chunk) || err != nil {
				t.Fatalf("Write = %d, %v, want %d", n, err, len(chunk))
			}
		}
		tally.flush()
		if got.String() != want {
			t.Fatalf("in pieces of %d it forwarded\n%q, want\n%q", size, got.String(), want)
		}
		if counted := (result{Passed: 1, Failed: 1, Skipped: 2}); r != counted {
			t.Fatalf("in pieces of %d it counted %+v, want %+v", size, r, counted)
		}
	}
}

// TestEveryDeviationFails checks that every deviation from the job counts as a failure.
func TestEveryDeviationFails(t *testing.T) {
	two := []testRun{{Package: "a"}, {Package: "b"}}
	good := result{Package: "a", Passed: 2}
	for _, test := range []struct {
		name    string
		results []result
		chosen  bool
		end     error
		want    string
		ok      bool
	}{
		{"all pass", []result{good, {Package: "b", Passed: 1}}, false, nil, "3 passed, 0 failed", true},
		{"one fails", []result{good, {Package: "b", Passed: 1, Failed: 1, Exit: 1}}, false, nil, "3 passed, 1 failed", false},
		{"a test is skipped", []result{good, {Package: "b", Passed: 1, Skipped: 1}}, false, nil, "3 passed, 0 failed, 1 skipped", false},
		{"passes, then crashes", []result{good, {Package: "b", Passed: 1, Exit: 2}}, false, nil, "3 passed, 1 failed", false},
		{"a package runs none", []result{good, {Package: "b"}}, false, nil, "2 passed, 1 failed", false},
		{"a package has none of the chosen", []result{good, {Package: "b"}}, true, nil, "2 passed, 0 failed", true},
		{"no package has any of the chosen", []result{{Package: "a"}, {Package: "b"}}, true, nil, "0 passed, 1 failed", false},
		{"the machine ends after the last", []result{good, {Package: "b", Passed: 1}}, false, errEarlyEnd, "3 passed, 1 failed", false},
		{"the machine ends before the last", []result{good}, false, nil, "2 passed, 1 failed", false},
		{"the machine ends before the last of the chosen", []result{good}, true, nil, "2 passed, 1 failed", false},
		{"the machine prints nothing", nil, false, errEarlyEnd, "0 passed, 2 failed", false},
	} {
		s := judge(two, test.results, test.chosen, test.end)
		if s.String() != test.want || s.ok() != test.ok {
			t.Errorf("%s: %q, ok %t; want %q, %t", test.name, s, s.ok(), test.want, test.ok)
		}
	}
}

func TestReadConsole(t *testing.T) {
	const console = "\r\n[    0.1] noise\r\n" +
		`@vmtest {"Package":"a","Passed":2}` + "\r\n" +
		"@vmtest {cut off\r\n" +
		"@vmtest done\r\nPower down"
	var out strings.Builder
	results, done, err := readConsole(strings.NewReader(console), &out)
	if err != nil || !done || !slices.Equal(results, []result{{Package: "a", Passed: 2}}) {
		t.Errorf("read %+v, %t, %v", results, done, err)
	}
	if want := "\n[    0.1] noise\n@vmtest {cut off\nPower down\n"; out.String() != want {
		t.Errorf("forwarded %q, want %q", out.String(), want)
	}
}
