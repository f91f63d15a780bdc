package kerneltest

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestProcess freezes and ends a process, and a command that is no program.
func TestProcess(t *testing.T) {
	p := Launch(t, "", []string{"WORDS=some words"}, "sh", "-c", "echo $WORDS; exec cat /dev/zero >/dev/null")
	Eventually(t, time.Minute, func() error {
		if said := p.Said(); said != "some words\n" {
			return errors.New(said)
		}
		return nil
	})
	p.Freeze()
	p.Thaw()
	p.Freeze()
	if p.Over() {
		t.Error("it is over")
	}
	state := p.End(syscall.SIGTERM)
	if status := state.Sys().(syscall.WaitStatus); !p.Over() || status.Signal() != syscall.SIGTERM || p.End(syscall.SIGKILL) != state {
		t.Errorf("it ended with %v", state)
	}
	if err := Spawn(Launch(t, "", nil, "true").cmd, nil); err == nil {
		t.Error("it was started twice")
	}
}

// TestProcessSays checks that the end of the output is kept, however much there is.
func TestProcessSays(t *testing.T) {
	var w words
	for range 100 {
		if n, err := w.Write([]byte(strings.Repeat("x", os.Getpagesize()))); n != os.Getpagesize() || err != nil {
			t.Fatal(n, err)
		}
	}
	_, _ = w.Write([]byte("end"))
	if said := w.String(); len(said) > 80<<10 || len(said) < 32<<10 || !strings.HasSuffix(said, "xend") {
		t.Errorf("%d: %.20s", len(said), said)
	}
}
