package clustertest

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// TestJumpClock checks that both clocks of a process jump separately, and that the
// clocks of other processes do not.
func TestJumpClock(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	started := time.Now().Round(0) // of the wall clock
	c := New(t, Options{Hosts: 1})
	command := Command{Argv: []string{self}, Env: []string{tellsTime + "=1"}}
	d, other := c.Hosts[0].Start(command), c.Hosts[0].Start(command)
	// Each process prints the wall clock, and how long it has run.
	prints := func(d *Daemon, offset, age time.Duration) {
		t.Helper()
		seen := len(d.Log())
		kerneltest.Eventually(t, patience, func() error {
			lines := strings.Split(d.Log()[seen:], "\n")
			if len(lines) < 10 {
				return fmt.Errorf("%s prints only %q", d.Name, lines)
			}
			var day, running int64
			if _, err := fmt.Sscan(lines[len(lines)-2], &day, &running); err != nil {
				return err
			}
			off := time.Until(time.Unix(day, 0)) - offset
			if off.Abs() > patience || (time.Duration(running)*time.Second-age).Abs() > patience {
				return fmt.Errorf("the clock of %s is %v off, and it prints that it has run for %d s", d.Name, off, running)
			}
			return nil
		})
	}
	prints(d, 0, 0)
	prints(other, 0, 0)
	const year = 365 * 24 * time.Hour
	d.JumpClock(year)
	prints(d, year, 0)
	d.JumpClock(-3 * year)
	prints(d, -2*year, 0)
	prints(other, 0, 0)
	if now := time.Until(started); now > 0 || now < -patience {
		t.Errorf("the test's own clock was moved by %v", now)
	}
	d.Age(time.Hour)
	prints(d, -2*year, time.Hour)
	d.JumpClock(2 * year)
	d.Age(year)
	prints(d, 0, year+time.Hour)
	prints(other, 0, 0)
}
