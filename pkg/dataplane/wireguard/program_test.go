package wireguard

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun/tuntest"

	"github.com/tulle-net/tulle/pkg/companion"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/wireguardprocess"
)

// program is a tulle-wireguard in this process, without a TUN device.
type program struct {
	control *companion.Control
	device  *device.Device
	socket  net.Listener
	ended   chan struct{}
	once    sync.Once
	frozen  sync.RWMutex // held while the program accepts connections, and does nothing else
}

func startProgram(t *testing.T, s companion.Spec, version string) *program {
	t.Helper()
	control, err := companion.Claim(s, version)
	if err != nil {
		t.Error(err)
		return nil
	}
	quiet := &device.Logger{Verbosef: device.DiscardLogf, Errorf: device.DiscardLogf}
	p := &program{control: control, device: device.NewDevice(tuntest.NewChannelTUN().TUN(), conn.NewDefaultBind(), quiet), ended: make(chan struct{})}
	if err := p.device.Up(); err != nil {
		t.Error(err)
	}
	if p.socket, err = net.Listen("unix", wireguardprocess.Settings{Dir: s.Dir}.Socket()); err != nil {
		t.Error(err)
	}
	go func() {
		for {
			c, err := p.socket.Accept()
			if err != nil {
				return
			}
			go func() {
				p.frozen.RLock()
				defer p.frozen.RUnlock()
				p.device.IpcHandle(c)
			}()
		}
	}()
	go func() {
		select {
		case <-control.Asked():
			p.crash()
		case <-p.ended:
		}
	}()
	control.Set(companion.Running, "")
	return p
}

// crash ends the program.
func (p *program) crash() {
	p.once.Do(func() {
		p.socket.Close()
		p.device.Close()
		p.control.Close()
		close(p.ended)
	})
}

// host is where programs run. They outlive engines.
type host struct {
	t *testing.T

	mu       sync.Mutex
	programs map[string]*program // by folder
	starts   int
	fails    error // of the next starts
}

func newHost(t *testing.T) *host {
	h := &host{t: t, programs: make(map[string]*program)}
	t.Cleanup(func() {
		for _, p := range h.programs {
			p.crash()
		}
	})
	return h
}

func (h *host) keep(s companion.Spec, changed func()) Process {
	return &keeper{host: h, spec: s, changed: changed}
}

// reach returns the program of a folder, which it starts if there is none.
func (h *host) reach(s companion.Spec) (*program, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.programs[s.Dir]; p != nil {
		select {
		case <-p.ended:
		default:
			return p, nil
		}
	}
	if h.fails != nil {
		return nil, h.fails
	}
	h.starts++
	h.programs[s.Dir] = startProgram(h.t, s, "v1")
	return h.programs[s.Dir], nil
}

func (h *host) setFails(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fails = err
}

func (h *host) program(dir string) (*program, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.programs[dir], h.starts
}

// keeper keeps a program running without a pause.
type keeper struct {
	host    *host
	spec    companion.Spec
	changed func()

	mu     sync.Mutex
	status companion.Status
}

func (k *keeper) Run(ctx context.Context) {
	for ctx.Err() == nil {
		p, err := k.host.reach(k.spec)
		if err != nil {
			k.set(companion.Status{Problem: err.Error()})
			_ = retry.Sleep(ctx, time.Millisecond)
			continue
		}
		now := p.control.Process()
		k.set(companion.Status{Process: &now})
		select {
		case <-ctx.Done():
			return
		case <-p.ended:
		}
		k.set(companion.Status{Problem: "it has crashed"})
	}
}

func (k *keeper) set(s companion.Status) {
	k.mu.Lock()
	k.status = s
	k.mu.Unlock()
	k.changed()
}

func (k *keeper) Status() companion.Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status
}

var errNoProgram = errors.New("there is no such program")
