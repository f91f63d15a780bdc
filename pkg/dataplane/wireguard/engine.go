package wireguard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/companion"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/wireguardprocess"
)

// Secrets has the keys that netstate only refers to.
type Secrets interface {
	// PrivateKey returns the private key that belongs to a public one.
	PrivateKey(public netstate.PublicKey) (key [32]byte, ok bool)
	// PSK returns the preshared key that has a reference.
	PSK(ref netstate.PSK) (key [32]byte, ok bool)
}

// Process keeps a program running until the context of Run ends.
type Process interface {
	Run(ctx context.Context)
	Status() companion.Status
}

// Options are what an Engine uses.
type Options struct {
	Dir     string // has a folder for each program
	Secrets Secrets
	// Keep returns what keeps a program, and calls changed whenever its status changes.
	Keep func(s companion.Spec, changed func()) Process
	By   string // the setting that asks for the program, in errors
}

// Engine serves the links of netstate.TunnelWireGuardTUN of a host. It costs nothing while
// there is none. It is safe for concurrent use.
type Engine struct {
	options Options
	stopped atomic.Pointer[func(link string)]
	ctx     context.Context // ends with the engine
	cancel  context.CancelFunc

	mu    sync.Mutex // guards what follows
	links map[string]*link
}

// link is a link with its program.
type link struct {
	settings wireguardprocess.Settings
	process  Process
	ctx      context.Context // ends with the link
	cancel   context.CancelFunc
	running  sync.WaitGroup // what follows the program
	state    atomic.Int32   // one of the following

	asking  sync.Mutex // guards silence
	silence error      // why requests fail at once

	mu    sync.Mutex // guards what follows
	given netstate.Endpoints
}

// What was last known of a link's program.
const (
	fresh int32 = iota // nothing yet
	runs
	lost // it does not run, or has been replaced
)

// New returns an engine without links.
func New(o Options) *Engine {
	e := &Engine{options: o, links: make(map[string]*link)}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// Serves reports whether a program moves the packets of a link, or holds an object.
func (e *Engine) Serves(o netstate.Object) bool {
	switch o := o.(type) {
	case netstate.Link:
		return o.Kind == netstate.TunnelWireGuardTUN
	case netstate.WGPeer, netstate.WGAllowed:
		return e.link(netstate.LinkOf(o)) != nil
	}
	return false
}

// OnStop sets what is called with the name of a link whose program ended, and again when
// another one runs, or when one answers again.
func (e *Engine) OnStop(f func(link string)) { e.stopped.Store(&f) }

// link returns a link that is served, or nil.
func (e *Engine) link(name string) *link {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.links[name]
}

// follow returns a link. If it is new, follow begins to keep its program running.
func (e *Engine) follow(name string) *link {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.links[name]; l != nil {
		return l
	}
	l := &link{settings: e.settings(name)}
	l.process = e.options.Keep(l.settings.Spec(e.options.By), func() { e.changed(l) })
	l.ctx, l.cancel = context.WithCancel(e.ctx)
	e.links[name] = l
	l.running.Go(func() { l.process.Run(l.ctx) })
	return l
}

// settings returns those of a link's program.
func (e *Engine) settings(name string) wireguardprocess.Settings {
	return wireguardprocess.Settings{Dir: filepath.Join(e.options.Dir, name), Interface: name}
}

// changed handles a new status of a link's program.
func (e *Engine) changed(l *link) {
	news := false
	if l.runs() {
		news = l.state.Swap(runs) == lost
	} else {
		news = l.state.CompareAndSwap(runs, lost)
	}
	if news {
		e.report(l)
	}
}

// report reports that a link has to be looked at again.
func (e *Engine) report(l *link) {
	if f := e.stopped.Load(); f != nil {
		(*f)(l.settings.Interface)
	}
}

// runs reports whether the program is ready.
func (l *link) runs() bool {
	s := l.process.Status()
	return s.Process != nil && s.Process.State == companion.Running
}

// startLimit is how long Open waits for a program. Its start takes a tenth of a second.
const startLimit = 3 * time.Second

// await waits until the program runs.
func (l *link) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for !l.runs() {
		const often = 5 * time.Millisecond
		if retry.Sleep(ctx, often) != nil {
			if why := l.process.Status().Problem; why != "" {
				return errors.New(why)
			}
			return fmt.Errorf("tulle-wireguard has not started within %s", startLimit)
		}
	}
	return nil
}

// Open makes a program serve a link whose device exists, with the link's key and port. It
// changes only what differs.
func (e *Engine) Open(ctx context.Context, l netstate.Link) error {
	at := e.follow(l.Name)
	private, ok := e.options.Secrets.PrivateKey(l.WireGuard.Key)
	if !ok {
		return fmt.Errorf("link %s: no private key for the public key %s", l.Name, l.WireGuard.Key)
	}
	if err := at.silent(); err != nil {
		return err
	}
	if err := at.await(ctx); err != nil {
		at.state.CompareAndSwap(fresh, lost)
		return err
	}
	is, err := e.read(ctx, at, nil)
	if err != nil || is == l.WireGuard {
		return err
	}
	return e.configure(ctx, at, is, l.WireGuard, private)
}

// Close stops the program of a link, and drops what is known of it. The device stays.
func (e *Engine) Close(name string) {
	e.mu.Lock()
	l := e.links[name]
	delete(e.links, name)
	e.mu.Unlock()
	if l == nil {
		return
	}
	l.stop()
	const limit = 5 * time.Second
	ctx, cancel := context.WithTimeout(e.ctx, limit)
	defer cancel()
	if _, err := companion.Stop(ctx, l.settings.Dir); err != nil && !errors.Is(err, companion.ErrNone) {
		klog.ErrorS(err, "Failed to stop tulle-wireguard", "link", name)
	}
}

// Prune stops to follow programs that do not run, for links whose devices are gone. has
// reports whether the kernel showed a link.
func (e *Engine) Prune(has func(link string) bool) {
	for _, name := range e.names() {
		if l := e.link(name); l != nil && !has(name) && l.state.Load() == lost && !l.runs() {
			e.Close(name)
		}
	}
}

// names returns the names of all links.
func (e *Engine) names() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Keys(e.links))
}

// Leave stops to follow all programs. They run on.
func (e *Engine) Leave() {
	e.cancel()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.links {
		l.stop()
	}
	clear(e.links)
}

// Show returns a link of the kernel as it is: what its program knows takes a request.
func (e *Engine) Show(l netstate.Link) netstate.Link { return l }

// Dump returns a link of the kernel as it is with its program, and the program's peers. If
// there is no program, there are none; if one does not answer, an error is returned. Dump
// follows a program of an earlier run.
func (e *Engine) Dump(ctx context.Context, l netstate.Link) (netstate.Link, []netstate.Object, error) {
	at := e.link(l.Name)
	if at == nil {
		conn, err := dial(ctx, e.settings(l.Name).Socket())
		if absent(err) {
			l.WireGuard = netstate.WireGuard{}
			return l, nil, nil
		}
		if err == nil {
			conn.Close()
		}
		at = e.follow(l.Name)
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	var objects []netstate.Object
	is, err := e.read(ctx, at, func(p peer) {
		p.Link = l.Name
		at.given.Note(&p.WGPeer, p.handshake)
		objects = append(objects, p.WGPeer)
		for _, prefix := range p.allowed {
			objects = append(objects, netstate.WGAllowed{Link: l.Name, Prefix: prefix, Peer: p.Peer})
		}
	})
	switch {
	case absent(err):
		at.given = netstate.Endpoints{}
		objects = nil
	case err != nil:
		return l, nil, err
	}
	l.WireGuard = is
	return l, objects, nil
}

// Sessions returns the sessions of those of the links that programs serve.
func (e *Engine) Sessions(ctx context.Context, links []string) (sessions []netstate.Session, err error) {
	for _, name := range links {
		at := e.link(name)
		if at == nil {
			continue
		}
		if _, err := e.read(ctx, at, func(p peer) {
			sessions = append(sessions, netstate.Session{Link: name, Peer: p.Peer, Endpoint: p.Endpoint, Handshake: p.handshake, Received: p.received, Sent: p.sent})
		}); err != nil {
			return nil, err
		}
	}
	return sessions, nil
}
