package network

import (
	"errors"
	"io/fs"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/snapshot"
	"github.com/tulle-net/tulle/subnet"
)

const (
	// patience is how long a node waits for the store before it goes by what it
	// remembers.
	patience = 3 * time.Second
	// saveAfter is how long a change waits to be saved, for more to come.
	saveAfter = 10 * time.Second
	// saveAgain is how long a disk that failed is left in peace.
	saveAgain = time.Minute
)

// recall reads what an earlier run saved of the node itself, so that it stays
// what it was to the others.
func (a *Agent) recall() {
	if a.Outputs.StateDir == "" {
		return
	}
	head, err := snapshot.LoadHead(a.Outputs.StateDir, a.Outputs.Network)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		klog.ErrorS(err, "What an earlier run saved is of no use")
	default:
		a.before = head.Own
	}
}

// remember goes by what an earlier run saved, if the store has not answered.
func (a *Agent) remember() {
	if a.before == (subnet.Lease{}) || a.stored {
		return
	}
	s, err := snapshot.Load(a.Outputs.StateDir, a.Outputs.Network)
	if err != nil {
		klog.ErrorS(err, "The store does not answer, and what it said last is of no use")
		return
	}
	klog.InfoS("The store does not answer; going by what it said last", "saved", s.Saved, "subnet", s.Own.Key(), "peers", len(s.Peers))
	a.remembered, a.own = s.Peers, s.Own
	a.status.mu.Lock()
	a.status.remembered = s.Saved
	a.status.mu.Unlock()
	a.met(onConfig)
	a.enforce(s.Config)
}

// saveSoon has the network saved in a while, together with what else changes
// until then.
func (a *Agent) saveSoon() {
	if a.Outputs.StateDir != "" && !a.saving && a.listed {
		a.saving = true
		a.save.Reset(saveAfter)
	}
}

// saveNetwork saves config, own lease and peers. What cannot be saved now is
// tried again.
func (a *Agent) saveNetwork() {
	a.saving = false
	head := snapshot.Head{Source: a.Outputs.Network, Config: a.config, Own: a.own}
	_, err := snapshot.Save(a.Outputs.StateDir, head, slices.Values(a.peers.Leases()))
	switch {
	case err != nil && a.unsaved == nil:
		klog.ErrorS(err, "Could not save the network for a start without the store; trying again")
	case err == nil && a.unsaved != nil:
		klog.InfoS("Saving the network works again")
	}
	if a.unsaved = err; err != nil {
		a.saving = true
		a.save.Reset(saveAgain)
	}
}
