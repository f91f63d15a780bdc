package network

import (
	"errors"
	"io/fs"
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
	a.env = a.Outputs.read()
	if a.Outputs.StateDir == "" {
		return
	}
	head, err := snapshot.LoadHead(a.Outputs.StateDir, a.Outputs.Network)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		klog.ErrorS(err, "What an earlier run saved is of no use")
	case !a.isThis(head.Own.Node):
		// As on a machine that was copied from another.
		klog.InfoS("Ignoring the saved network of another node", "node", head.Own.Node.Name)
	default:
		a.before = head.Own
	}
}

// rememberUnlessCopied calls remember, unless the node that saved the snapshot lives
// elsewhere: then this machine is a copy of it.
func (a *Agent) rememberUnlessCopied() {
	if a.Lives == nil || a.before == (subnet.Lease{}) {
		a.remember()
		return
	}
	before := a.before
	a.running.Go(func() {
		elsewhere := a.Lives(a.ctx, before)
		a.call(a.ctx, func() {
			if !elsewhere {
				a.remember()
			} else if a.before == before {
				klog.InfoS("Ignoring the saved network: the node that saved it lives elsewhere", "node", before.Holder())
				a.before = subnet.Lease{}
			}
		})
	})
}

// remember goes by what an earlier run saved, if the store has not answered.
func (a *Agent) remember() {
	if a.before == (subnet.Lease{}) || a.own != (subnet.Lease{}) || a.refused {
		return
	}
	s, err := snapshot.Load(a.Outputs.StateDir, a.Outputs.Network)
	switch {
	case err != nil:
		klog.ErrorS(err, "Store unreachable, and the saved network cannot be loaded")
		return
	case a.stored && !a.config.Allows(s.Own.Subnets):
		klog.InfoS("Store grants no lease, and the saved network is of another config")
		return
	}
	klog.InfoS("Store unreachable; using the saved network", "saved", s.Saved, "subnet", s.Own.Key(), "peers", len(s.Peers))
	a.remembered, a.own = s.Peers, s.Own
	if !a.hinted {
		// What the store would say is not known: what it came to then is.
		a.hinted, a.Uplinks.Published = true, s.Own.PublicIP
	}
	a.savedAt = s.Saved
	if a.stored {
		if a.following.done == nil {
			a.follow()
		}
		a.refresh()
		return
	}
	a.stopWaiting(onConfig)
	a.enforce(s.Config)
}

// saveSoon has the network saved in a while, together with what else changes
// until then.
func (a *Agent) saveSoon() {
	a.unsaved = true
	if a.Outputs.StateDir != "" && !a.saving && a.listed {
		a.saving = true
		a.save.Reset(saveAfter)
	}
}

// saveNow saves the network beside all else: a disk may take its time. What
// cannot be saved now is tried again.
func (a *Agent) saveNow() {
	save := a.saveNetwork()
	a.running.Go(func() {
		err := save()
		a.call(a.ctx, func() { a.saved(err) })
	})
}

// saveNetwork is what saves config, own lease and peers as they are now.
func (a *Agent) saveNetwork() func() error {
	head := snapshot.Head{Source: a.Outputs.Network, Config: a.config, Own: a.own}
	peers := a.peers.All()
	a.unsaved = false
	return func() error {
		_, err := snapshot.Save(a.Outputs.StateDir, head, func(yield func(subnet.Lease) bool) {
			for _, p := range peers {
				if !yield(*p.Lease) {
					return
				}
			}
		})
		return err
	}
}

// saved takes in how saving went.
func (a *Agent) saved(err error) {
	switch {
	case err != nil && a.saveError == nil:
		klog.ErrorS(err, "Failed to save the network; retrying")
	case err == nil && a.saveError != nil:
		klog.InfoS("Saved the network again")
	}
	a.saveError = err
	a.saving = err != nil || a.unsaved
	switch {
	case err != nil:
		a.save.Reset(saveAgain)
	case a.unsaved:
		a.save.Reset(saveAfter)
	}
}

// saveAtEnd saves what has changed since the last time.
func (a *Agent) saveAtEnd() {
	if !a.unsaved || !a.listed || a.Outputs.StateDir == "" {
		return
	}
	if err := a.saveNetwork()(); err != nil && a.saveError == nil {
		klog.ErrorS(err, "Failed to save the network")
	}
}
