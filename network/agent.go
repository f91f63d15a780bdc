package network

import (
	"context"
	"io/fs"
	"net/netip"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/envfile"
	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/pkg/hostif"
	"github.com/tulle-net/tulle/pkg/identity"
	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/pkg/reconcile"
	"github.com/tulle-net/tulle/subnet"
)

// Kernel is what a node needs of its kernel.
type Kernel interface {
	reconcile.Kernel
	hostif.Source
}

// Files keeps files as they should be, whatever others do to them.
type Files interface {
	// Set has path hold content from now on. What goes wrong is tried again.
	Set(path string, content []byte, mode fs.FileMode) error
	// Failing are the files that are not as they should be, and why.
	Failing() map[string]error
	// Fights are the files that others keep changing.
	Fights() map[string]budget.Fight
	Run(ctx context.Context)
}

// Options are who a node is and what it stands on.
type Options struct {
	Store    subnet.Store
	Kernel   Kernel
	Backends map[string]backend.Factory // by the type that a config calls them by
	// Node is this node's identity; the backend sets its MTU. Identity gives the node
	// another ID if another machine has the same one; nil where IDs are unique.
	Node     subnet.Node
	Identity *identity.Identity
	// Uplinks says what may face the other hosts. Its Networks, Last and
	// Bridges are the agent's to fill in. Hints calls to with another one whenever
	// what the store says of this host has changed, and once at first; nil where it
	// says nothing.
	Uplinks hostif.Spec
	Hints   func(ctx context.Context, to func(hostif.Spec))
	Files   Files
	// Healing is what it may cost to restore what others change in the kernel.
	Healing *budget.Account
	// Firewall is told what the host has to masquerade and to let through: Rules,
	// of which Networks and Own are the agent's to fill in.
	Firewall Firewall
	Rules    firewall.Rules
	// Exemptions calls to with further networks that see the containers' own
	// addresses, again and again; nil where there are none.
	Exemptions func(ctx context.Context, to func([]netip.Prefix))
	// Prober finds out whether packets reach the peers, and Responder answers those
	// of theirs that do; nil where that is not wanted.
	Prober    *probe.Prober
	Responder *probe.Responder
	// Presence answers other machines' questions whether this one lives. Lives asks
	// whether the holder of a lease lives elsewhere. Nil disables them.
	Presence *probe.Presence
	Lives    func(ctx context.Context, l subnet.Lease) bool
	// LeaseEnds returns when this node's lease ends unless it is renewed, by the
	// monotonic clock, or the zero Time. Nil if leases do not end.
	LeaseEnds func() time.Time
	Outputs   Outputs
	// Changed is called, if it is not nil, after every change of the Status
	// that is not the kernel's alone. It must not wait.
	Changed func()
}

// Agent is one node's life: it owns the config in force, the node's own lease
// and its backend, and works out what follows from them for the kernel and the
// files whenever the store or the host has news.
//
// All of that is done by the one goroutine of Run. The others wait: for the
// store, for the host, for a disk; what they come back with they have done by
// it, as a call. A call of something that was replaced meanwhile, like a lease
// asked for before the host's address changed, is void.
type Agent struct {
	Options
	loop   *reconcile.Reconciler
	calls  chan func()
	nodeMu sync.Mutex // guards Node, which others than Run's goroutine read

	// What follows belongs to Run's goroutine.

	ctx     context.Context
	running sync.WaitGroup
	waiting map[reason]string // for what, and why

	config  subnet.Config // in force; the zero Config until there is one
	stored  bool          // the store has told its config
	pending subnet.Config // what the store says, where that waits for a restart
	before  subnet.Lease  // the node's lease in an earlier run
	env     envfile.Env   // as an earlier run wrote it
	// remembered are the peers of an earlier run, as long as config and own are
	// what was saved then and not the store's word; else nil.
	remembered []subnet.Lease
	savedAt    time.Time // that was; the zero Time once the store has answered

	hinted    bool // Uplinks are what the store says, or said in an earlier run
	host      hostif.Interfaces
	following task
	backend   backend.Backend
	// checksumsBroken says that probes found out that this host's are, in tunnels.
	// It is so for as long as the daemon runs: to try again would cost the
	// containers their connections.
	checksumsBroken bool

	own            subnet.Lease // as it is published; the zero Lease until there is one
	since          time.Time    // the store leased own to this run
	claim          subnet.Claim // that is being kept
	keeping        task
	peers          *Peers
	listed         bool // the store's complete list has come
	watching       bool // the store is being watched
	refused        bool // the store gives no lease, and says why
	twins          twins
	writing        task // of files
	save           *time.Timer
	bury           *time.Timer    // for what lingers
	burying        bool           // bury runs
	saving         bool           // save runs, or what it calls for
	unsaved        bool           // something has changed since it was saved
	saveError      error          // of the last time
	exempted       []netip.Prefix // by Exemptions
	foreignBridges string         // bridges that are no part of the network, of which the log knows
}

// resync is how often the kernel is looked at whatever it reports.
const resync = 5 * time.Minute

// New makes a node, which does nothing until it runs.
func New(o Options) *Agent {
	a := &Agent{
		Options: o,
		loop:    reconcile.New(o.Kernel, resync, o.Healing),
		calls:   make(chan func()),
		save:    time.NewTimer(time.Hour),
		bury:    time.NewTimer(time.Hour),
	}
	a.save.Stop()
	a.bury.Stop()
	a.waiting = make(map[reason]string)
	return a
}

// Run lives the node's life until ctx ends. It leaves the kernel and the files
// as they are: containers go on talking.
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
	a.running.Go(func() { a.loop.Run(ctx) })
	a.running.Go(func() { a.Files.Run(ctx) })
	a.running.Go(func() { a.Firewall.Run(ctx) })
	if a.Exemptions != nil {
		a.running.Go(func() { a.Exemptions(ctx, a.setExempted) })
	}
	if a.Prober != nil {
		a.running.Go(func() { a.Prober.Run(ctx, probed{a}, a.probedChange) })
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
			a.saveAtEnd()
			return
		case f := <-a.calls:
			f()
		case <-waited.C:
			a.rememberUnlessCopied()
		case <-a.bury.C:
			a.burying = a.peers.Bury()
			if a.burying {
				a.bury.Reset(linger)
			}
			a.saveSoon()
		case <-a.save.C:
			a.saveNow()
		}
	}
}

// call has f done by Run's goroutine, unless ctx ends before.
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

// callAndWait runs f in the goroutine of a.Run and returns its answer. It reports false
// if ctx ends before. As f may run after that, it must not share variables with the
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

// Alive says, within ctx, whether Run's goroutine still does what it is called for.
func (a *Agent) Alive(ctx context.Context) bool {
	_, ok := callAndWait(ctx, a, func() struct{} { return struct{}{} })
	return ok
}

// Reload has all that others may have changed looked at again.
func (a *Agent) Reload() {
	a.loop.Resync()
}

// task is something that waits in a goroutine of its own and is at times begun
// anew.
type task struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// restart ends t, if it runs, and begins it with f once it has ended.
func (a *Agent) restart(t *task, f func(ctx context.Context)) {
	before := *t
	if before.cancel != nil {
		before.cancel()
	}
	ctx, cancel := context.WithCancel(a.ctx)
	*t = task{cancel, make(chan struct{})}
	done := t.done
	a.running.Go(func() {
		defer close(done) // ctx goes on: what f called for last is still to be done
		if before.done != nil {
			<-before.done
		}
		f(ctx)
	})
}

// awaitSync waits until the kernel holds all that the complete list asks for. What
// it refuses is no reason to wait: it harms nobody else.
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
