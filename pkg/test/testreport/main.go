// Command testreport runs go test and reports its results in plain lines: a line for
// each package that passed, everything that a failing one printed, and the counts
// last. It is stricter than go test. A skipped test, a TestMain that exits without
// running the tests, and a run without tests all fail, because each looks like
// success.
//
// Its arguments are go test's own:
//
//	go run ./pkg/test/testreport -race -count=1 ./...
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	os.Exit(run("", os.Args[1:], os.Stdout, os.Stderr))
}

// run reports on go test with args in the folder dir. It returns the exit code, which
// is go test's own unless that is zero.
func run(dir string, args []string, out, stderr io.Writer) int {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir = dir
	cmd.Stderr = stderr
	r := newReport(out)
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return r.close(fmt.Errorf("starting go test: %w", err))
	}
	readErr := r.read(stdout)
	return r.close(errors.Join(cmd.Wait(), readErr))
}

// read handles go test's events until the stream ends. It prints a line that is not an
// event unchanged.
func (r *report) read(from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				r.add(e)
			} else {
				fmt.Fprintf(r.out, "%s\n", bytes.TrimSuffix(line, []byte("\n")))
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the output of go test: %w", err)
		}
	}
}

// exitCode returns the exit code for an error. It is never zero.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exit.ExitCode()
	}
	return 1
}
