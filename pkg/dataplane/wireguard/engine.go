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
	cancel   context.CancelFunc
	ended    chan struct{} // closed when nothing keeps the program
	state    atomic.Int32  // one of the following

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
// another one runs.
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
	l := &link{settings: e.settings(name), ended: make(chan struct{})}
	l.process = e.options.Keep(l.settings.Spec(e.options.By), func() { e.changed(l) })
	ctx, cancel := context.WithCancel(e.ctx)
	l.cancel = cancel
	e.links[name] = l
	go func() {
		defer close(l.ended)
		l.process.Run(ctx)
	}()
	return l
}

// settings returns those of a link's program.
func (e *Engine) settings(name string) wireguardprocess.Settings {
	return wireguardprocess.Settings{Dir: filepath.Join(e.options.Dir, name), Interface: name}
}

// changed handles a new status of a link's program.
func (e *Engine) changed(l *link) {
	news := false
	if l.running() {
		news = l.state.Swap(runs) == lost
	} else {
		news = l.state.CompareAndSwap(runs, lost)
	}
	if !news {
		return
	}
	if f := e.stopped.Load(); f != nil {
		(*f)(l.settings.Interface)
	}
}

// running reports whether the program is ready.
func (l *link) running() bool {
	s := l.process.Status()
	return s.Process != nil && s.Process.State == companion.Running
}

// startLimit is how long Open waits for a program. Its start takes a tenth of a second.
const startLimit = 3 * time.Second

// await waits until the program runs.
func (l *link) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for !l.running() {
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
func (e *Engine) Open(l netstate.Link) error {
	at := e.follow(l.Name)
	private, ok := e.options.Secrets.PrivateKey(l.WireGuard.Key)
	if !ok {
		return fmt.Errorf("link %s: no private key for the public key %s", l.Name, l.WireGuard.Key)
	}
	if err := at.await(); err != nil {
		at.state.CompareAndSwap(fresh, lost)
		return err
	}
	is, err := read(at.settings.Socket(), nil)
	if err != nil || is == l.WireGuard {
		return err
	}
	return at.configure(is, l.WireGuard, private)
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
	l.cancel()
	<-l.ended
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
		if l := e.link(name); l != nil && !has(name) && l.state.Load() == lost && !l.running() {
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
		<-l.ended
	}
	clear(e.links)
}

// Dump returns a link of the kernel as it is with its program, and the program's peers. If
// the program does not answer, there are none. Dump follows a program of an earlier run.
func (e *Engine) Dump(l netstate.Link) (netstate.Link, []netstate.Object) {
	at := e.link(l.Name)
	if at == nil {
		if _, err := read(e.settings(l.Name).Socket(), nil); err != nil {
			l.WireGuard = netstate.WireGuard{}
			return l, nil
		}
		at = e.follow(l.Name)
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	var objects []netstate.Object
	var err error
	l.WireGuard, err = read(at.settings.Socket(), func(p peer) {
		p.Link = l.Name
		at.given.Note(&p.WGPeer, p.handshake)
		objects = append(objects, p.WGPeer)
		for _, prefix := range p.allowed {
			objects = append(objects, netstate.WGAllowed{Link: l.Name, Prefix: prefix, Peer: p.Peer})
		}
	})
	if err != nil {
		at.given = netstate.Endpoints{}
		return l, nil
	}
	return l, objects
}

// Sessions returns the sessions of those of the links that programs serve.
func (e *Engine) Sessions(links []string) (sessions []netstate.Session, err error) {
	for _, name := range links {
		at := e.link(name)
		if at == nil {
			continue
		}
		if _, err := read(at.settings.Socket(), func(p peer) {
			sessions = append(sessions, netstate.Session{Link: name, Peer: p.Peer, Endpoint: p.Endpoint, Handshake: p.handshake, Received: p.received, Sent: p.sent})
		}); err != nil {
			return nil, err
		}
	}
	return sessions, nil
}
