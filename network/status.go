package network

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/pkg/reconcile"
	"github.com/tulle-net/tulle/subnet"
)

// reason is what a node may wait for before it is ready, in the order in which
// it comes.
type reason int

const (
	onConfig reason = iota
	onRestart
	onUplink
	onBackend
	onLease
	onFiles
	onBridge
	onList
	onKernel
)

// Status is how a node is.
type Status struct {
	// Ready says that the network works here, as far as it can be seen from
	// here; Missing says what is missing for that.
	Ready   bool
	Missing []string
	// Started says that all is there which others may wait for who start later. A
	// bridge of theirs that does not fit is for them to change, and a config that
	// waits for a restart has all go on as before.
	Started bool
	// Own is the node's lease; the zero Lease until there is one.
	Own   subnet.Lease
	Peers int
	// Remembered is when what the node goes by was saved, as long as the store
	// cannot be asked.
	Remembered time.Time
	Kernel     reconcile.Status
	Firewall   firewall.Status
	Rejected   []*subnet.LeaseError
}

// String is the status in a line.
func (s Status) String() string {
	text := "no subnet yet"
	if s.Own != (subnet.Lease{}) {
		text = fmt.Sprintf("%s on %s, %d peers", s.Own.Key(), s.Own.BackendType, s.Peers)
	}
	if !s.Remembered.IsZero() {
		text += ", store unreachable: using the snapshot of " + s.Remembered.UTC().Format(time.RFC3339)
	}
	if n := len(s.Kernel.Failing); n > 0 {
		text += fmt.Sprintf(", the kernel refuses %d objects, first %s: %v", n, s.Kernel.Failing[0].Key, s.Kernel.Failing[0].Err)
	}
	if s.Firewall.Err != nil {
		text += fmt.Sprintf(", firewall not in sync: %v", s.Firewall.Err)
	}
	for i, m := range s.Missing {
		if i == 0 {
			text += "; not ready: "
		} else {
			text += "; "
		}
		text += m
	}
	return text
}

// standing is what of the Status the agent keeps: it is read by others.
type standing struct {
	mu         sync.Mutex
	now        map[reason]string // what is waited for
	own        subnet.Lease
	peers      *Peers
	remembered time.Time
}

// await takes note that the node waits for something, and says whether that is
// news.
func (a *Agent) await(r reason, why string) bool {
	a.standing.mu.Lock()
	before := a.standing.now[r]
	a.standing.now[r] = why
	a.standing.mu.Unlock()
	if before != why {
		a.changed()
	}
	return before != why
}

// met takes note that something is no longer waited for, and says whether that is
// news.
func (a *Agent) met(r reason) bool {
	a.standing.mu.Lock()
	_, waited := a.standing.now[r]
	delete(a.standing.now, r)
	a.standing.mu.Unlock()
	if waited {
		a.changed()
	}
	return waited
}

func (a *Agent) changed() {
	if a.Changed != nil {
		a.Changed()
	}
}

// Status tells how the node is.
func (a *Agent) Status() Status {
	a.standing.mu.Lock()
	s := Status{Own: a.standing.own, Remembered: a.standing.remembered}
	later := 0
	for _, r := range slices.Sorted(maps.Keys(a.standing.now)) {
		s.Missing = append(s.Missing, a.standing.now[r])
		if r == onBridge || r == onRestart {
			later++
		}
	}
	peers := a.standing.peers
	a.standing.mu.Unlock()
	if peers != nil {
		s.Peers, s.Rejected = peers.Len(), peers.Rejected()
	}
	s.Kernel = a.loop.Status()
	for _, f := range s.Kernel.Failing {
		if f.Owner == Host { // what no peer can be reached without
			s.Missing = append(s.Missing, fmt.Sprintf("the kernel refuses %s: %v", f.Key, f.Err))
		}
	}
	failing := a.Files.Failing()
	for _, path := range slices.Sorted(maps.Keys(failing)) {
		s.Missing = append(s.Missing, fmt.Sprintf("%s is out of date: %v", path, failing[path]))
	}
	if s.Firewall = a.Firewall.Status(); s.Own != (subnet.Lease{}) && !s.Firewall.Tried {
		s.Missing = append(s.Missing, "writing the firewall rules")
	}
	s.Ready, s.Started = len(s.Missing) == 0, len(s.Missing) == later
	return s
}
