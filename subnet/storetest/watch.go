package storetest

import (
	"testing"

	"github.com/tulle-net/tulle/subnet"
)

func watch(t *testing.T, s Store) {
	s.SetConfig(smallNetwork)
	first := acquire(t, s, node(1))
	w := watcher(t, s)
	if u := w.next("a list"); !u.Complete {
		t.Fatalf("the first message is no complete list: %+v", u)
	}
	w.await("the first", func(leases map[string]subnet.Lease) bool {
		return len(leases) == 1 && leases[first.Key()].Attrs == first.Attrs
	})
	second := acquire(t, s, node(2))
	w.await("both", func(leases map[string]subnet.Lease) bool {
		return len(leases) == 2 && leases[second.Key()].Attrs == second.Attrs
	})
	s.Delete(first.Key())
	w.await("the second alone", func(leases map[string]subnet.Lease) bool {
		return len(leases) == 1 && leases[second.Key()].Attrs == second.Attrs
	})
	if w.lists != 1 {
		t.Errorf("%d complete lists without a gap", w.lists)
	}
	l := w.leases[second.Key()]
	if l.Revision == 0 || l.Created == 0 {
		t.Errorf("no revision or no creation: %+v", l)
	}
}

func watchGap(t *testing.T, s Store) {
	s.SetConfig(smallNetwork)
	first := acquire(t, s, node(1))
	w := watcher(t, s)
	w.await("the first", func(leases map[string]subnet.Lease) bool { return len(leases) == 1 })
	s.Gap()
	s.Delete(first.Key())
	second := acquire(t, s, node(2))
	w.await("a list again, and the second alone", func(leases map[string]subnet.Lease) bool {
		_, ok := leases[second.Key()]
		return w.lists >= 2 && ok && len(leases) == 1
	})
}

func watchRubbish(t *testing.T, s Store) {
	s.SetConfig(smallNetwork)
	good := acquire(t, s, node(1))
	rubbish := map[string]string{
		"10.5.0.0-28":  `{"PublicIP":"999.0.0.1"}`,
		"not-a-subnet": `{"PublicIP":"192.0.2.99"}`,
	}
	w := watcher(t, s)
	w.await("the good one", func(leases map[string]subnet.Lease) bool { return len(leases) == 1 })
	for _, again := range []bool{false, true} {
		if again {
			s.Gap()
		}
		for key, value := range rubbish {
			s.Write(key, value)
		}
		w.await("the rubbish reported, the good lease left", func(leases map[string]subnet.Lease) bool {
			_, ok := leases[good.Key()]
			return ok && len(leases) == 1 && len(w.bad) == len(rubbish)
		})
	}
	for key := range rubbish {
		s.Delete(key)
	}
	w.await("no more rubbish", func(leases map[string]subnet.Lease) bool {
		return len(leases) == 1 && len(w.bad) == 0
	})
}
