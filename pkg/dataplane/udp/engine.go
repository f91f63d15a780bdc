package udp

import (
	"context"
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// Engine moves the packets of all links of netstate.TunnelUDP of a host. It costs nothing
// while there is none. It is safe for concurrent use.
type Engine struct {
	queues int
	inside func(func() error) error

	stopped atomic.Pointer[func(link string)]

	mu    sync.Mutex // guards what follows; what moves packets never takes it
	links map[string]*state
}

// state is what an engine holds of a link.
type state struct {
	peers map[netip.Prefix]netip.AddrPort
	link  *link  // nil while no packets are moved
	past  Counts // of earlier ones
}

// New returns an engine without links.
func New() *Engine {
	return NewInside(func(f func() error) error { return f() })
}

// NewInside returns an engine whose devices and sockets are where inside runs functions,
// as in a network namespace.
func NewInside(inside func(func() error) error) *Engine {
	return &Engine{queues: min(runtime.GOMAXPROCS(0), maxQueues), inside: inside, links: make(map[string]*state)}
}

// Serves reports whether the engine moves the packets of a link, or holds an object.
func (e *Engine) Serves(o netstate.Object) bool {
	switch o := o.(type) {
	case netstate.Link:
		return o.Kind == netstate.TunnelUDP
	case netstate.UDPPeer:
		return true
	}
	return false
}

// OnStop sets what is called with the name of a link whose packets the engine stopped to
// move, for example because another program deleted the device.
func (e *Engine) OnStop(f func(link string)) {
	e.stopped.Store(&f)
}

// Open begins to move the packets of a link whose device exists, as the link says. It
// changes nothing if it does so already.
func (e *Engine) Open(_ context.Context, l netstate.Link) error {
	if err := checkUDP(l); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.links[l.Name]
	if s == nil {
		s = &state{peers: make(map[netip.Prefix]netip.AddrPort)}
		e.links[l.Name] = s
	}
	if s.link != nil && s.link.is == l.UDP && s.link.moves() {
		return nil
	}
	s.close()
	return e.inside(func() (err error) {
		s.link, err = openLink(l, e.queues, newTable(s.peers), e.linkStopped)
		return err
	})
}

// linkStopped handles the end of a link that was not closed.
func (e *Engine) linkStopped(l *link, err error) {
	klog.ErrorS(err, "Stopped to move packets; starting again", "link", l.name)
	if stopped := e.stopped.Load(); stopped != nil {
		(*stopped)(l.name)
	}
}

// close ends what is moved, and keeps its counts.
func (s *state) close() {
	if s.link != nil {
		s.link.close()
		s.past = s.past.plus(s.link.counts())
		s.link = nil
	}
}

// Close ends the work for a link, and drops its peers. The device stays.
func (e *Engine) Close(link string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.links[link]; s != nil {
		s.close()
		delete(e.links, link)
	}
}

// Prune ends the work for links whose devices are gone: no packets may come through a device
// in another network namespace, and another program may need the port. has reports whether
// the kernel showed a link; that may be outdated. What was counted stays.
func (e *Engine) Prune(has func(link string) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, s := range e.links {
		if s.link != nil && !has(name) && !s.link.moves() {
			s.close()
			clear(s.peers)
		}
	}
}

// CloseAll ends all work. The devices stay.
func (e *Engine) CloseAll() {
	for _, link := range e.names() {
		e.Close(link)
	}
}

func (e *Engine) names() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Keys(e.links))
}

// Apply carries out steps on peers.
func (e *Engine) Apply(_ context.Context, p netstate.Plan) (failed netstate.Failures) {
	e.mu.Lock()
	defer e.mu.Unlock()
	changed := make(map[*state]bool)
	for _, op := range p {
		o, ok := op.Object.(netstate.UDPPeer)
		s := e.links[o.Link]
		switch {
		case !ok:
			failed = append(failed, &netstate.OpError{Op: op, Err: syscall.EOPNOTSUPP})
		case s == nil && op.Verb == netstate.Delete:
		case s == nil:
			failed = append(failed, &netstate.OpError{Op: op, Err: syscall.ENODEV})
		case op.Verb == netstate.Delete:
			delete(s.peers, o.Prefix)
			changed[s] = true
		default:
			s.peers[o.Prefix] = o.Endpoint
			changed[s] = true
		}
	}
	for s := range changed {
		if s.link != nil {
			s.link.table.Store(newTable(s.peers))
		}
	}
	return failed
}

// Show returns a link of the kernel as it is with the engine.
func (e *Engine) Show(l netstate.Link) netstate.Link {
	e.mu.Lock()
	defer e.mu.Unlock()
	l.UDP = netstate.UDP{}
	if s := e.links[l.Name]; s != nil && s.link != nil && s.link.moves() {
		l.UDP = s.link.is
	}
	return l
}

// Dump returns a link of the kernel as it is with the engine, and its peers.
func (e *Engine) Dump(_ context.Context, l netstate.Link) (netstate.Link, []netstate.Object, error) {
	l = e.Show(l)
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.links[l.Name]
	if s == nil {
		return l, nil, nil
	}
	objects := make([]netstate.Object, 0, len(s.peers))
	for prefix, at := range s.peers {
		objects = append(objects, netstate.UDPPeer{Link: l.Name, Prefix: prefix, Endpoint: at})
	}
	return l, objects, nil
}

// Counts returns what was moved through each link.
func (e *Engine) Counts() map[string]Counts {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.links) == 0 {
		return nil
	}
	all := make(map[string]Counts, len(e.links))
	for name, s := range e.links {
		all[name] = s.past
		if s.link != nil {
			all[name] = s.past.plus(s.link.counts())
		}
	}
	return all
}
