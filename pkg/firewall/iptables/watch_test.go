package iptables

import (
	"context"
	"testing"
	"time"
)

// What comes and goes in legacy tables is heard of, from when there are any, and
// what takes another's place, whoever did that.
func TestLegacyTablesAreWatched(t *testing.T) {
	h := newHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan bool, 100), make(chan error)
	go func() {
		ended <- h.inside(func() error {
			return OpenLegacy(h.Options).Watch(ctx, func() { heard <- true })
		})
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
	const elsewhere = "XTABLES_LOCKFILE=$XTABLES_LOCKFILE.other iptables-legacy "
	for _, rule := range []string{
		"-P FORWARD DROP", "-A FORWARD -s 10.5.0.0/16 -j ACCEPT", "-D FORWARD 1", "-t nat -N TULLE-POSTRTG", "-t nat -X TULLE-POSTRTG",
		"-A FORWARD -j ACCEPT", "-R FORWARD 1 -j DROP", elsewhere + "-R FORWARD 1 -j ACCEPT", elsewhere + "-P FORWARD ACCEPT",
	} {
		h.sh(t, Legacy, rule)
		expect(rule)
	}
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Error(err)
	}
}

// What is in a table has a number: another one for another order, and the same
// whatever was counted.
func TestSums(t *testing.T) {
	h := newHost(t)
	h.sh(t, Legacy, "-A INPUT -s 127.0.0.1 -m comment --comment one -j ACCEPT\n -A INPUT -s 127.0.0.2 -m comment --comment two -j ACCEPT")
	h.sh(t, Legacy, "ip6tables-legacy -A INPUT -s ::1 -j ACCEPT\n ip6tables-legacy -A INPUT -s ::2 -j ACCEPT")
	w := newWatcher(h.Options)
	defer w.close()
	sums := func() (all [2]uint64) {
		t.Helper()
		if err := h.inside(func() error { _, err := w.look(); return err }); err != nil {
			t.Fatal(err)
		}
		for i, watched := range w.known {
			if err := h.inside(func() (err error) { all[i], err = w.sum(watched, watched.info.size); return err }); err != nil {
				t.Fatal(err)
			}
		}
		return all
	}
	before := sums()
	for i := range w.buffer[:cap(w.buffer)] {
		w.buffer[:cap(w.buffer)][i] = 'x' // as of another table
	}
	h.NS.Ping(t, "", "127.0.0.1", 100)
	h.NS.Ping(t, "", "::1", 100)
	if now := sums(); now != before {
		t.Errorf("%x became %x though packets alone were counted", before, now)
	}
	h.sh(t, Legacy, "-D INPUT 1\n -A INPUT -s 127.0.0.1 -m comment --comment one -j ACCEPT")
	h.sh(t, Legacy, "ip6tables-legacy -D INPUT 1\n ip6tables-legacy -A INPUT -s ::1 -j ACCEPT")
	if now := sums(); now[0] == before[0] || now[1] == before[1] {
		t.Errorf("%x became %x in another order", before, now)
	}
}

// Whatever the kernel may give, it is taken for what it is or refused.
func FuzzUncount(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 200))
	entry := make([]byte, 168)
	entry[90], entry[100] = 168, 7
	f.Add(entry)
	f.Fuzz(func(t *testing.T, entries []byte) {
		for _, l := range layouts {
			l.uncount(entries)
		}
	})
}
