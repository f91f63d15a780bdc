package network

import (
	"context"
	"io/fs"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/move"
	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/envfile"
	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/pkg/hostif"
	"github.com/tulle-net/tulle/pkg/identity"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/pkg/reconcile"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/trouble"
	"github.com/tulle-net/tulle/subnet"
)

// Kernel is what a node needs of its kernel.
type Kernel interface {
	reconcile.Kernel
	hostif.Source
}

// Files keeps the content of files, and restores it after foreign changes.
type Files interface {
	// Set makes path have content from now on. It retries what fails.
	Set(path string, content []byte, mode fs.FileMode) error
	// Failing returns the files that are out of date, and why.
	Failing() map[string]error
	// Fights returns the files that other programs keep changing.
	Fights() map[string]budget.Fight
	Run(ctx context.Context)
}

// Options are a node's identity and what it uses.
type Options struct {
	Store    subnet.Store
	Kernel   Kernel
	Backends map[string]backend.Factory // by the type in the config
	// Node is this node's identity; the backend sets its MTU. Identity gives the node
	// another ID if another machine has the same one. It is nil where IDs are unique.
	Node     subnet.Node
	Identity *identity.Identity
	// Keys are this node's WireGuard keys. AddPSK adds a preshared key to what the kernel is
	// given. Both are nil where no backend needs them.
	Keys   Keys
	AddPSK func(key string) error
	// KernelWireGuard reports whether the kernel has wireguard devices. Its answer does not
	// change. It is nil where no backend needs it.
	KernelWireGuard func() bool
	// Unfiltered is the setting because of which Firewall writes no rules, or "" if it
	// writes them.
	Unfiltered string
	// Sessions returns the encrypted sessions of some links. It is nil where no backend has
	// any.
	Sessions func(ctx context.Context, links []string) (netstate.Sessions, error)
	// Prepare runs a backend's command that prepares this host (backend.HostFacts).
	// Prepared wakes the agent when Prepare has another answer. Both are nil where no
	// backend needs them.
	Prepare  func(command string, limit time.Duration) (output string, err error)
	Prepared <-chan struct{}
	// Uplinks says how to choose the uplinks. The agent fills in its Networks, Last and
	// Bridges. Hints calls to once at first, and again whenever the store's facts about
	// this host change. It is nil if the store has none.
	Uplinks hostif.Spec
	Hints   func(ctx context.Context, to func(hostif.Spec))
	Files   Files
	// Healing bounds what restoring kernel objects after foreign changes may cost.
	Healing *budget.Account
	// Firewall gets Rules: what the host must masquerade and accept. The agent fills
	// in their Networks and Own.
	Firewall Firewall
	Rules    firewall.Rules
	// Exemptions calls to with the present list of further networks that see the
	// containers' own addresses, at first and after changes. It is nil if there are
	// none.
	Exemptions func(ctx context.Context, to func([]netip.Prefix))
	// Prober checks whether packets reach the peers, and Responder answers the peers'
	// probes. They are nil if probes are disabled.
	Prober    *probe.Prober
	Responder *probe.Responder
	// Presence answers other machines that ask whether this one is alive. Lives asks
	// whether the holder of a lease is alive elsewhere. Nil disables them.
	Presence *probe.Presence
	Lives    func(ctx context.Context, l subnet.Lease) bool
	// LeaseEnds returns when this node's lease ends unless it is renewed, by the
	// monotonic clock, or the zero Time. It is nil if leases do not end.
	LeaseEnds func() time.Time
	Outputs   Outputs
	// Trim returns memory to the host that was needed for a moment only. The agent calls it
	// between the parts of much work, so it must be cheap. Nil disables it.
	Trim func()
	// Changed, if not nil, is called after every change of the Status, except for
	// changes of the kernel alone. It must not block.
	Changed func()
}

// Agent runs one node. It owns the config in force, the node's own lease and its
// backend. After each change of the store or the host, it works out what the kernel
// and the files must hold.
//
// All of that happens in Run's goroutine. Other goroutines wait for the store, the
// host or a disk, and pass their results to it as calls. A call is dropped if its
// cause was replaced meanwhile, for example a lease requested before the host's
// address changed.
type Agent struct {
	Options
	confining atomic.Bool // the rules that are wanted confine packets
	loop      *reconcile.Reconciler
	calls     chan func()
	nodeMu    sync.Mutex // guards Node, which other goroutines read

	// The following fields belong to Run's goroutine.

	ctx     context.Context
	running sync.WaitGroup
	waiting map[reason]string // what the node waits for, and why

	config  subnet.Config // in force; the zero Config until there is one
	stored  bool          // the store has returned its config
	pending subnet.Config // the store's config, if it waits for a restart
	before  subnet.Lease  // the node's lease in an earlier run
	env     envfile.Env   // as an earlier run wrote it
	// remembered are the peers of an earlier run, while config and own are the saved
	// ones and not from the store; otherwise nil.
	remembered []subnet.Lease
	recalling  bool            // not all of those are applied
	recalled   <-chan struct{} // closed when all are; nil while peers is
	savedAt    time.Time       // when they were saved; the zero Time once the store has answered

	hinted    bool // Uplinks include the store's hint, present or saved
	host      hostif.Interfaces
	following task
	backends  move.Backends // that the node holds; zero until there is one
	moving    moving
	offload   offload

	own            subnet.Lease // as published; the zero Lease until there is one
	confirmed      subnet.Attrs // of own, as the store had them last
	since          time.Time    // when the store leased own to this run
	claim          subnet.Claim // the present claim
	claiming       bool         // the store has not answered it yet, and may have it or not
	keeping        task
	peers          *peerSet
	listed         bool // the store's complete list has arrived
	watching       task // of the store
	noticing       task // of its notices of routes
	noticed        bool
	firstNotices   chan struct{} // closed at the first notices
	lifting        *time.Timer   // ends vetoes
	refused        bool          // the store refuses a lease, with a reason
	twins          twins
	writing        task // of files
	save           *time.Timer
	bury           *time.Timer // drops lingering peers
	burying        bool        // bury is running
	saving         bool        // save is running, or the save that it started
	unsaved        bool        // something has changed since the last save
	saves          trouble.Outcome
	exempted       []netip.Prefix // from Exemptions
	rotation       rotation
	foreignBridges string // bridges outside the network, as last logged
}

// resync is the interval of full resyncs with the kernel.
const resync = 5 * time.Minute

// New returns a node. Run starts it.
func New(o Options) *Agent {
	a := &Agent{
		Options:  o,
		calls:    make(chan func()),
		save:     time.NewTimer(time.Hour),
		bury:     time.NewTimer(time.Hour),
		saves:    trouble.Outcome{Failed: "Failed to save the network; retrying", Works: "Saved the network again"},
		offload:  offload{timer: time.NewTimer(time.Hour)},
		lifting:  time.NewTimer(time.Hour),
		rotation: rotation{wake: retry.NewWakeup()},
		moving:   moving{timer: time.NewTimer(time.Hour)},
	}
	a.loop = reconcile.New(confined{a}, resync, o.Healing)
	if a.Trim == nil {
		a.Trim = func() {}
	}
	a.lifting.Stop()
	a.save.Stop()
	a.bury.Stop()
	a.offload.timer.Stop()
	a.moving.timer.Stop()
	a.waiting = make(map[reason]string)
	return a
}

// Run runs the node until ctx ends. It leaves the kernel and the files as they are,
// so that containers stay connected.
func (a *Agent) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer a.running.Wait()
	defer cancel()
	a.ctx = ctx
	a.recall()
	a.await(onConfig, "reading the network config from the store")
	a.await(onLease, "leasing a subnet")
	a.await(onFiles, "writing the env file and the CNI config")
	a.await(onList, "reading the leases from the store")
	a.await(onKernel, "syncing the kernel")
	loopCtx, endLoop := context.WithCancel(context.WithoutCancel(ctx)) // the loop ends after a trial
	defer endLoop()
	a.running.Go(func() { a.loop.Run(loopCtx) })
	a.running.Go(func() { a.Files.Run(ctx) })
	a.running.Go(func() { a.Firewall.Run(ctx) })
	if a.Exemptions != nil {
		a.running.Go(func() { a.Exemptions(ctx, a.setExempted) })
	}
	if a.Prober != nil {
		a.running.Go(func() { a.Prober.Run(ctx, probed{a}, a.probedChange) })
	}
	if a.LeaseEnds != nil {
		a.running.Go(a.followExpiry)
	}
	if a.Keys != nil {
		a.running.Go(a.rotateKeys)
	}
	a.hinted = a.Hints == nil
	if a.Hints != nil {
		a.await(onUplink, "reading this Node's addresses from the store")
		a.running.Go(func() { a.Hints(ctx, a.hint) })
	}
	a.running.Go(a.readConfigs)
	a.running.Go(a.awaitSync)
	waited := time.NewTimer(patience)
	defer waited.Stop()
	for {
		select {
		case <-ctx.Done():
			a.abortTrial()
			a.saveAtEnd()
			return
		case f := <-a.calls:
			f()
			a.Trim()
		case <-waited.C:
			a.rememberUnlessCopied()
		case <-a.bury.C:
			a.burying = false
			if a.peers.DropLingering() {
				a.buryAfter(linger)
			}
			a.followOffers()
			a.saveSoon()
		case <-a.save.C:
			a.saveNow()
		case <-a.offload.timer.C:
			a.tryOffload()
		case <-a.lifting.C:
			a.liftVetoes()
		case <-a.moving.timer.C:
			a.look()
		case <-a.Prepared:
			a.refresh()
		}
	}
}

// call runs f in Run's goroutine, unless ctx ends before.
func (a *Agent) call(ctx context.Context, f func()) {
	select {
	case a.calls <- func() {
		if ctx.Err() == nil {
			f()
		}
	}:
	case <-ctx.Done():
	}
}

// callAndWait runs f in the goroutine of a.Run and returns its answer. ok is false
// if ctx ends before. f may still run after that, so it must not share variables with the
// caller.
func callAndWait[T any](ctx context.Context, a *Agent, f func() T) (answer T, ok bool) {
	answers := make(chan T, 1)
	a.call(ctx, func() { answers <- f() })
	select {
	case answer = <-answers:
		return answer, true
	case <-ctx.Done():
		return answer, false
	}
}

// Alive reports, within ctx, whether Run's goroutine runs calls.
func (a *Agent) Alive(ctx context.Context) bool {
	_, ok := callAndWait(ctx, a, func() struct{} { return struct{}{} })
	return ok
}

// Reload starts a full resync.
func (a *Agent) Reload() {
	a.loop.Resync()
}

// task is a goroutine that waits for something, and can be restarted.
type task struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// restart ends t if it runs, waits for its end, and then starts it with f.
func (a *Agent) restart(t *task, f func(ctx context.Context)) {
	before := *t
	if before.cancel != nil {
		before.cancel()
	}
	ctx, cancel := context.WithCancel(a.ctx)
	*t = task{cancel, make(chan struct{})}
	done := t.done
	a.running.Go(func() {
		defer close(done) // ctx goes on: f's last call must still run
		if before.done != nil {
			<-before.done
		}
		f(ctx)
	})
}

// awaitSync waits until the kernel holds all that the complete list requires. It does
// not wait for refused objects, which harm no other peer.
func (a *Agent) awaitSync() {
	if a.loop.WaitTried(a.ctx) != nil {
		return
	}
	a.call(a.ctx, func() {
		if failing := len(a.loop.Status().Failing); failing > 0 {
			klog.InfoS("Kernel in sync with all peers, except for failing objects", "peers", a.peers.Len(), "failing", failing)
		} else {
			klog.InfoS("Kernel in sync with all peers", "peers", a.peers.Len())
		}
		a.stopWaiting(onKernel)
	})
}
