package kernel

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/retry"
)

// pollInterval is how often Watch reads the settings whose changes the kernel does
// not announce.
const pollInterval = time.Second

// polled holds the settings of this kind that Dump has read or Apply has set, with
// the values last seen.
type polled struct {
	wakeUp retry.Wakeup // there may be settings now

	mu     sync.Mutex
	values map[string]string
}

func newSilent() *polled {
	return &polled{wakeUp: retry.NewWakeup(), values: make(map[string]string)}
}

// announced reports whether the kernel sends an event when the setting changes.
func announced(path string) bool {
	_, feature := netstate.TxChecksumOf(path)
	return feature || strings.HasSuffix(path, "/forwarding") || strings.HasSuffix(path, "/rp_filter")
}

// see records values of settings. If all says that these are all wanted ones, it
// forgets the others.
func (s *polled) see(settings []netstate.Object, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all {
		clear(s.values)
	}
	for _, o := range settings {
		if o, ok := o.(netstate.Sysctl); ok && !announced(o.Path) {
			s.values[o.Path] = o.Value
		}
	}
	if len(s.values) > 0 {
		s.wakeUp.Wake()
	}
}

func (s *polled) paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.values))
}

// learn records the result of a poll, and returns the paths of the changed settings.
func (s *polled) learn(settings []netstate.Object) (news []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range settings {
		setting := o.(netstate.Sysctl)
		if before, known := s.values[setting.Path]; known && before != setting.Value {
			s.values[setting.Path] = setting.Value
			news = append(news, setting.Path)
		}
	}
	return news
}

// poll reports changes of unannounced settings until ctx ends. While there are none
// to poll, it sleeps.
func (k *Kernel) poll(ctx context.Context, to func(netstate.Event)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.silent.wakeUp:
		}
		tick := time.NewTicker(pollInterval)
		for paths := k.silent.paths(); len(paths) > 0; paths = k.silent.paths() {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
			settings, err := k.dumpSysctls(paths)
			if err != nil {
				continue // the next resync will find it
			}
			k.reportSettings(k.silent.learn(settings), to)
		}
		tick.Stop()
	}
}
