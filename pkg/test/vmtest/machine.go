package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
)

const memory = "1G"

// commandLine is the kernel's command line. The kernel prints only errors, uses the
// processor as a source of randomness, and ends the machine (with -no-reboot) on a
// panic or an oops. It does not check the timer: on a host under load, the emulated one
// ticks too late, and the kernel would panic.
const commandLine = "console=ttyS0 quiet loglevel=3 panic=-1 oops=panic random.trust_cpu=on no_timer_check rdinit=" + guestInit + " -- " + guestArg

// resultPrefix is the prefix of a line with a result on the machine's console.
const resultPrefix = "@vmtest "

// errEarlyEnd is returned if the machine ended before its job did. The results that
// it reported until then still count.
var errEarlyEnd = errors.New("the machine ended early")

func findQEMU() (string, error) {
	qemu, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		return "", fmt.Errorf("%w: apt-get install --no-install-recommends qemu-system-x86", err)
	}
	return qemu, nil
}

// boot runs the machine until it ends or ctx does. It forwards the console line by
// line, except for the results, which it returns.
func boot(ctx context.Context, qemu, kernel, initrd string, console io.Writer) ([]result, error) {
	cmd := exec.CommandContext(ctx, qemu,
		"-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", memory,
		"-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot",
		"-kernel", kernel, "-initrd", initrd, "-append", commandLine)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = console
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	results, done, readErr := readConsole(stdout, console)
	err = cmd.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err = errors.Join(readErr, err); err != nil {
		return results, fmt.Errorf("%w: %w", errEarlyEnd, err)
	}
	if !done {
		return results, errEarlyEnd
	}
	return results, nil
}

// readConsole forwards lines and returns the results among them. It reports whether the
// machine printed that it was done.
func readConsole(from io.Reader, to io.Writer) (results []result, done bool, err error) {
	for r := bufio.NewReader(from); ; {
		line, err := r.ReadString('\n')
		line = strings.TrimRight(line, "\r\n")
		text, ours := strings.CutPrefix(line, resultPrefix)
		var res result
		switch {
		case ours && text == "done":
			done = true
		case ours && json.Unmarshal([]byte(text), &res) == nil:
			results = append(results, res)
		case line != "" || err == nil:
			fmt.Fprintln(to, line)
		}
		if errors.Is(err, io.EOF) {
			return results, done, nil
		} else if err != nil {
			return results, done, err
		}
	}
}
