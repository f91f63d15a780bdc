// Command testreport runs go test and says in plain lines what came of it: a
// line for each package that passed, everything that a failing one printed,
// and the counts last. It is stricter than go test: a skipped test, a TestMain
// that leaves without running the tests, and a run of no test at all fail,
// because each looks like a test that passed and is not.
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

// run reports on go test with args in the folder dir, and returns the exit
// code: go test's own where that is not zero.
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

// read takes go test's events until the stream ends. A line that is none is
// printed as it is.
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
			return fmt.Errorf("reading what go test says: %w", err)
		}
	}
}

// exitCode is what a program should exit with after err, never zero for an
// error.
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
