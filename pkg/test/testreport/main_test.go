package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRun runs go test on one package for each case, so that the report is compared
// with what this machine's Go writes.
func TestRun(t *testing.T) {
	tests := []struct {
		name   string
		file   string // default x_test.go
		source string
		args   []string
		code   int
		close  string
		want   []string
		not    []string
	}{
		{
			name: "pass",
			source: `package x
import "testing"
func TestA(tt *testing.T) { tt.Log("chatter") }
func TestB(tt *testing.T) { tt.Run("sub", func(tt *testing.T) {}) }`,
			close: "3 passed, 0 failed, 0 skipped",
			want:  []string{"ok  \tm/pass\t"},
			not:   []string{"chatter", "TestA"},
		}, {
			name: "fail",
			source: `package x
import ("fmt"; "testing")
func TestA(tt *testing.T) { fmt.Println("printed by A") }
func TestB(tt *testing.T) { tt.Run("sub", func(tt *testing.T) { tt.Error("reason") }) }`,
			code:  1,
			close: "1 passed, 2 failed, 0 skipped",
			want: []string{"printed by A\n", "x_test.go:4: reason", "--- FAIL: TestB/sub", "FAIL\tm/fail\t",
				"failed: m/fail TestB/sub\n"},
			not: []string{"=== RUN", "--- PASS"},
		}, {
			name: "skip",
			source: `package x
import "testing"
func TestA(tt *testing.T) {}
func TestB(tt *testing.T) { tt.Run("sub", func(tt *testing.T) { tt.Skip("no root") }) }`,
			code:  1,
			close: "2 passed, 0 failed, 1 skipped",
			want:  []string{"no root", "ok  \tm/skip\t", "skipped: m/skip TestB/sub\n"},
			not:   []string{"=== RUN"},
		}, {
			name: "panic",
			source: `package x
import "testing"
func TestA(tt *testing.T) { tt.Parallel() }
func TestB(tt *testing.T) { panic("boom") }`,
			code:  1,
			close: "0 passed, 2 failed, 0 skipped",
			want:  []string{"panic: boom", "goroutine", "failed: m/panic TestB\n", "failed: m/panic TestA, which did not finish\n"},
		}, {
			name: "timeout",
			source: `package x
import "testing"
func TestA(tt *testing.T) { select {} }`,
			args:  []string{"-timeout=100ms"},
			code:  1,
			close: "0 passed, 1 failed, 0 skipped",
			want:  []string{"test timed out", "FAIL\tm/timeout\t"},
		}, {
			name: "build",
			source: `package x
import "testing"
func TestA(tt *testing.T) { var unused int }`,
			code:  1,
			close: "0 passed, 1 failed, 0 skipped",
			want:  []string{"x_test.go:3:33: declared and not used: unused", "FAIL\tm/build [build failed]", "failed: m/build\n"},
		}, {
			name: "exit", // all tests pass, but the package fails
			source: `package x
import ("fmt"; "os"; "testing")
func TestA(tt *testing.T) {}
func TestMain(m *testing.M) { m.Run(); fmt.Println("left behind"); os.Exit(3) }`,
			code:  1,
			close: "1 passed, 1 failed, 0 skipped",
			want:  []string{"left behind", "failed: m/exit\n"},
		}, {
			name: "hidden", // go test prints ok
			source: `package x
import ("os"; "testing")
func TestA(tt *testing.T) {}
func TestMain(m *testing.M) { os.Exit(0) }`,
			code:  1,
			close: "0 passed, 1 failed, 0 skipped",
			want:  []string{"ok  \tm/hidden\t", "failed: m/hidden, whose TestMain ran no test\n"},
		}, {
			name:   "nofiles",
			file:   "x.go",
			source: `package x`,
			code:   1,
			close:  "0 passed, 0 failed, 0 skipped",
			want:   []string{"[no test files]", "failed: no test ran\n"},
		}, {
			name: "norun",
			source: `package x
import "testing"
func TestA(tt *testing.T) {}`,
			args:  []string{"-run=TestOther"},
			code:  1,
			close: "0 passed, 0 failed, 0 skipped",
			want:  []string{"[no tests to run]", "failed: no test ran\n"},
		}, {
			name: "flag",
			source: `package x
import "testing"
func TestA(tt *testing.T) {}`,
			args:  []string{"-timeout=soon"},
			code:  2,
			close: "0 passed, 1 failed, 0 skipped",
			want:  []string{`invalid value "soon"`, "failed: go test: exit status 2\n"},
		},
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module m\n\ngo 1.24\n")
	for _, test := range tests {
		if test.file == "" {
			test.file = "x_test.go"
		}
		write(t, filepath.Join(dir, test.name, test.file), test.source)
		t.Run(test.name, func(t *testing.T) {
			var out, stderr bytes.Buffer
			code := run(dir, append(test.args, "./"+test.name), &out, &stderr)
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if !strings.HasSuffix("\n"+out.String(), "\n"+test.close+"\n") {
				t.Errorf("the last line is not %q", test.close)
			}
			for _, want := range test.want {
				if !strings.Contains(out.String()+stderr.String(), want) {
					t.Errorf("no %q", want)
				}
			}
			for _, not := range test.not {
				if strings.Contains(out.String(), not) {
					t.Errorf("%q should not be there", not)
				}
			}
			if t.Failed() {
				t.Logf("the report:\n%s\nstderr:\n%s", &out, &stderr)
			}
		})
	}
}

func TestRunWithoutGo(t *testing.T) {
	t.Setenv("PATH", "")
	var out bytes.Buffer
	if code := run("", nil, &out, nil); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if !strings.HasSuffix(out.String(), "\n0 passed, 1 failed, 0 skipped\n") {
		t.Errorf("got:\n%s", &out)
	}
}

// TestRead passes in output that go test writes only on a broken machine.
func TestRead(t *testing.T) {
	tests := []struct {
		name, stream string
		err          error // of go test
		code         int
		want         string
	}{
		{
			name: "a line that is not an event",
			stream: `plain words
{"a":"JSON line"}
{"Action":"run","Package":"p","Test":"A"}
{"Action":"pass","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Output":"ok  \tp\n"}
{"Action":"pass","Package":"p"}
last, no newline`,
			want: "plain words\n{\"a\":\"JSON line\"}\nok  \tp\nlast, no newline\n1 passed, 0 failed, 0 skipped\n",
		}, {
			name: "cut off",
			stream: `{"Action":"run","Package":"p","Test":"A"}
{"Action":"pass","Package":"p","Test":"A"}
{"Action":"run","Package":"p","Test":"B"}
{"Action":"output","Package":"p","Test":"B","Output":"words\n"}
`,
			err:  errors.New("signal: killed"),
			code: 1,
			want: "words\nfailed: p B, which did not finish\n1 passed, 1 failed, 0 skipped\n",
		}, {
			name: "cut off between two tests, with exit code 0",
			stream: `{"Action":"run","Package":"p","Test":"A"}
{"Action":"pass","Package":"p","Test":"A"}
`,
			code: 1,
			want: "failed: p\n1 passed, 1 failed, 0 skipped\n",
		}, {
			name: "nothing",
			code: 1,
			want: "failed: no test ran\n0 passed, 0 failed, 0 skipped\n",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			r := newReport(&out)
			if err := r.read(strings.NewReader(test.stream)); err != nil {
				t.Fatal(err)
			}
			if code := r.close(test.err); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if out.String() != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", &out, test.want)
			}
		})
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
