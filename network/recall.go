package network

import (
	"errors"
	"io/fs"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/snapshot"
	"github.com/tulle-net/tulle/subnet"
)

const (
	// patience is how long a node waits for the store before it uses the saved
	// network.
	patience = 3 * time.Second
	// saveAfter is the delay of a save, to collect more changes.
	saveAfter = 10 * time.Second
	// saveAgain is the delay after a failed save.
	saveAgain = time.Minute
)

// recall reads the node's own part of the saved network, so that the node stays the
// same to its peers.
func (a *Agent) recall() {
	a.env = a.Outputs.read()
	if a.Outputs.StateDir == "" {
		return
	}
	head, err := snapshot.LoadHead(a.Outputs.StateDir, a.Outputs.Network)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		klog.ErrorS(err, "Failed to load the saved network; starting without it")
	case !a.isThis(head.Own.Node):
		// For example on a copied machine.
		klog.InfoS("Ignoring the saved network of another node", "node", head.Own.Node.Name)
	default:
		a.before = head.Own
		if head.Config.Backend.Type != "" {
			a.moving.former = append(a.moving.former, head.Config.Backend)
		}
		for _, b := range head.Former {
			if b.Type != "" {
				a.moving.former = append(a.moving.former, b)
			}
		}
		if a.Prober != nil {
			a.Prober.Seen(head.Saved)
		}
		if head.ChecksumsBroken {
			a.remainDisabled()
		}
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
				a.before, a.moving.former = subnet.Lease{}, nil
			}
		})
	})
}

// remember uses what an earlier run saved, if the store has not answered.
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
		// The store's hint is unknown, but its effect was saved.
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

// recallPeers passes the peers of an earlier run to the new peerSet. Many are applied
// in portions, like a first list: after a reboot, the kernel has none of them.
func (a *Agent) recallPeers() {
	recalled := make(chan struct{})
	a.recalled = recalled
	left := a.peers.splitRemembered(a.remembered)
	if len(left.updates) == 1 {
		a.peers.applyNext(left)
		close(recalled)
		return
	}
	a.recalling = true
	a.running.Go(func() {
		defer close(recalled)
		pace(a.ctx, a.loop, func() (more bool) {
			more, _ = callAndWait(a.ctx, a, func() bool { return a.recallNext(left) })
			return more
		})
	})
}

// recallNext applies the next portion of the peers of an earlier run.
func (a *Agent) recallNext(left *portions) (more bool) {
	if more = a.peers.applyNext(left); !more {
		a.recalling = false
		a.settleForRemembered()
	}
	return more
}

// settleForRemembered makes the node ready once it has all peers of an earlier run. While
// the store is down, they are all there are.
func (a *Agent) settleForRemembered() {
	if !a.recalling {
		a.stopWaiting(onList)
		a.stopWaiting(onKernel)
	}
}

// saveSoon saves the network after a delay, together with further changes.
func (a *Agent) saveSoon() {
	a.unsaved = true
	if a.Outputs.StateDir != "" && !a.saving && a.listed {
		a.saving = true
		a.save.Reset(saveAfter)
	}
}

// saveNow saves the network in a goroutine of its own, because a disk may hang. A
// failed save is retried.
func (a *Agent) saveNow() {
	save := a.saveNetwork()
	a.running.Go(func() {
		err := save()
		a.call(a.ctx, func() { a.saved(err) })
	})
}

// saveNetwork returns a function that saves the present config, own lease and peers.
func (a *Agent) saveNetwork() func() error {
	head := snapshot.Head{Source: a.Outputs.Network, Config: a.config, Own: a.own, ChecksumsBroken: a.offload.checksums != backend.ChecksumsSound}
	copy(head.Former[:], a.moving.former)
	peers := a.peers.leases()
	a.unsaved = false
	return func() error {
		a.Trim()
		defer a.Trim()
		_, err := snapshot.Save(a.Outputs.StateDir, head, func(yield func(subnet.Lease) bool) {
			for i, l := range peers {
				if i%portion == 0 {
					a.Trim()
				}
				if !yield(*l) {
					return
				}
			}
		})
		return err
	}
}

// saved handles the result of a save.
func (a *Agent) saved(err error) {
	a.saves.Was(err)
	a.saving = err != nil || a.unsaved
	switch {
	case err != nil:
		a.save.Reset(saveAgain)
	case a.unsaved:
		a.save.Reset(saveAfter)
	}
}

// saveAtEnd saves changes since the last save.
func (a *Agent) saveAtEnd() {
	if !a.unsaved || !a.listed || a.Outputs.StateDir == "" {
		return
	}
	if err := a.saveNetwork()(); err != nil && a.saves.Err() == nil {
		klog.ErrorS(err, "Failed to save the network")
	}
}
