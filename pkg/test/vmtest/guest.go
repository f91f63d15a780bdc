package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// These paths inside the machine are known to both host and guest.
const (
	guestInit = "/init"
	guestArg  = "-guest"
	guestJob  = "/job.json"
)

var guestMounts = []struct{ source, target, fstype string }{
	{"proc", "/proc", "proc"},
	{"sysfs", "/sys", "sysfs"},
	{"devtmpfs", "/dev", "devtmpfs"},
	{"tmpfs", "/tmp", "tmpfs"},
	{"tmpfs", "/run", "tmpfs"},
}

// guest is the machine's first process. It prepares the machine for tests, runs them,
// and powers the machine off. It never returns. It writes every error to the console;
// the host notices that results are missing.
func guest() {
	if err := runJob(); err != nil {
		fmt.Println("vmtest: in the machine:", err)
	}
	// The serial port loses its last bytes if the guest powers off without waiting.
	unix.IoctlSetInt(1, unix.TCSBRK, 1)
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func runJob() error {
	text, err := os.ReadFile(guestJob)
	if err != nil {
		return err
	}
	var orders job
	if err := json.Unmarshal(text, &orders); err != nil {
		return err
	}
	if err := settle(); err != nil {
		return err
	}
	for _, path := range orders.Modules {
		if err := loadModule(path); err != nil {
			return fmt.Errorf("loading %s: %w", path, err)
		}
	}
	for _, t := range orders.Tests {
		res, err := runTests(t, timeLeft(orders.Timeout))
		if err != nil {
			return fmt.Errorf("running the tests of %s: %w", t.Package, err)
		}
		text, err := json.Marshal(res)
		if err != nil {
			return err
		}
		fmt.Printf("%s%s\n", resultPrefix, text)
	}
	fmt.Println(resultPrefix + "done")
	return nil
}

// settle sets up in the empty root what programs expect of a system.
func settle() error {
	for _, m := range guestMounts {
		if err := unix.Mount(m.source, m.target, m.fstype, 0, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", m.target, err)
		}
	}
	// Mount points are shared, as an init system makes them, so every process sees a
	// namespace that ip netns mounts.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("making the mounts shared: %w", err)
	}
	if err := unix.Sethostname([]byte("vm")); err != nil {
		return err
	}
	return loopbackUp()
}

func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo)
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

// timeLeft returns the time limit of the tests. They end a little before the host ends
// the machine, so that the output contains the name and the stack of a test that hangs.
func timeLeft(timeout time.Duration) time.Duration {
	const margin = 5 * time.Second
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return timeout - margin
	}
	return max(timeout-margin-time.Duration(up.Nano()), time.Second).Truncate(time.Second)
}

// runTests runs one test binary. It returns an error only if the binary could not
// run.
func runTests(t testRun, timeout time.Duration) (result, error) {
	res := result{Package: t.Package}
	out := &tally{to: os.Stdout, result: &res}
	cmd := exec.Command(t.Binary,
		"-test.v=test2json",
		"-test.count=1",
		"-test.run="+t.Run,
		"-test.timeout="+timeout.String())
	cmd.Dir = t.Dir
	cmd.Env = []string{
		"HOME=/root",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"PWD=" + t.Dir,
		"TULLE_VM=1",
		"USER=root",
	}
	cmd.Stdout = out
	cmd.Stderr = out
	// A process that a test left behind may keep the test's output open.
	cmd.WaitDelay = time.Second

	fmt.Println("=== " + t.Package)
	began := time.Now()
	err := cmd.Run()
	res.Seconds = time.Since(began).Seconds()
	if len(out.line) > 0 {
		out.flush()
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		res.Exit = exit.ExitCode()
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return res, err
	}
	return res, nil
}
