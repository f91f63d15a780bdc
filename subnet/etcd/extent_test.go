package etcd

import (
	"errors"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/subnet"
)

// TestKeysBesideLeasesProveNoLoss: what lies beside the leases, like a notice of routes,
// changes and is compacted while the connection is broken. That is no lost write, and the
// watch resumes without a list.
func TestKeysBesideLeasesProveNoLoss(t *testing.T) {
	const key, notice = "10.5.1.0-24", "vpc-1 198.18.0.1 10.5.1.0/24"
	remove := func(l *lab) {
		r, err := l.client.Delete(t.Context(), prefix+subnet.NoticesPrefix+key)
		l.do("delete the notice", r, err)
	}
	elsewhere := func(l *lab) { // so that the list is later than all that it has
		r, err := l.client.Put(t.Context(), "/elsewhere", "")
		l.do("write another program's key", r, err)
	}
	for name, c := range map[string]struct{ before, meanwhile func(*lab) }{
		"the latest write changes": {
			func(l *lab) { l.putNotice(key, notice) },
			func(l *lab) { l.putNotice(key, "vpc-2 198.18.0.1 10.5.1.0/24") },
		},
		"the latest write is removed": {func(l *lab) { l.putNotice(key, notice) }, remove},
		"one is added":                {elsewhere, func(l *lab) { l.putNotice(key, notice) }},
		"one is removed": {
			func(l *lab) { l.putNotice(key, notice); l.SetConfig(network); elsewhere(l) },
			remove,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.SetConfig(network)
			one := l.acquire(l.Store, claim(1))
			c.before(l)
			line := newLine(t, l.server.Endpoint())
			s := l.openAt(line.endpoint())
			f := l.follow(s)
			f.await("the lease", f.has(one))

			_, _, _, before := s.position.at()
			moved := s.position.moved()
			line.set(true)
			c.meanwhile(l)
			r, err := l.client.Get(t.Context(), "x")
			l.do("ask for the revision", r, err)
			compacted, err := l.client.Compact(t.Context(), r.Header.Revision)
			l.do("compact", compacted, err)
			kerneltest.Eventually(t, patience, func() error {
				if s.position.trusted() {
					return errors.New("the broken connection is not noticed")
				}
				return nil
			})
			line.set(false)
			kerneltest.Eventually(t, patience, func() error {
				if _, _, _, breaks := s.position.at(); breaks == before || !s.position.trusted() {
					return errors.New("the history is not checked")
				}
				return nil
			})
			select {
			case <-moved:
				t.Error("everything is listed again")
			default:
			}
			two := l.acquire(l.Store, claim(2))
			f.await("both", f.has(one, two))
		})
	}
}

// TestCompactedChangesProveNoLoss: leases come while the connection is broken, and etcd
// compacts that. No known write is lost, so the log must not name a restore. The watch
// lists again.
func TestCompactedChangesProveNoLoss(t *testing.T) {
	l := newLab(t)
	l.SetConfig(network)
	one := l.acquire(l.Store, claim(1))
	write := func() {
		r, err := l.client.Put(t.Context(), "/elsewhere", "") // so that the list is later than all that it has
		l.do("write another program's key", r, err)
	}
	write()
	line := newLine(t, l.server.Endpoint())
	s := l.openAt(line.endpoint())
	f := l.follow(s)
	f.await("the lease", f.has(one))

	_, _, _, before := s.position.at()
	moved := s.position.moved()
	line.set(true)
	two := l.acquire(l.Store, claim(2))
	write()
	r, err := l.client.Get(t.Context(), "x")
	l.do("ask for the revision", r, err)
	compacted, err := l.client.Compact(t.Context(), r.Header.Revision)
	l.do("compact", compacted, err)
	line.set(false)
	kerneltest.Eventually(t, patience, func() error {
		if _, _, _, breaks := s.position.at(); breaks == before || !s.position.trusted() {
			return errors.New("the history is not checked")
		}
		return nil
	})
	f.await("both", f.has(one, two))
	select {
	case <-moved:
		t.Error("the history counts as another")
	default:
	}
}
