package iptables

import (
	"context"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"os"
)

// What comes and goes in legacy tables is heard of, from when there are any.
func TestLegacyTablesAreWatched(t *testing.T) {
	h := newHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan bool, 100), make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, in the namespace
		ns, err := os.Open(h.Path)
		if err == nil {
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
			ns.Close()
		}
		if err == nil {
			err = OpenLegacy(h.Options).Watch(ctx, func() { heard <- true })
		}
		ended <- err
	}()
	expect := func(after string) {
		t.Helper()
		select {
		case <-heard:
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(20 * time.Second):
			t.Fatalf("nothing is heard after %s", after)
		}
	}
	expect("the beginning")
	for _, rule := range []string{
		"-P FORWARD DROP", "-A FORWARD -s 10.5.0.0/16 -j ACCEPT", "-D FORWARD 1", "-t nat -N TULLE-POSTRTG", "-t nat -X TULLE-POSTRTG",
	} {
		h.sh(t, Legacy, rule)
		expect(rule)
	}
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Error(err)
	}
}
