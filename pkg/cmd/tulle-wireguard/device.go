package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/ipc"
	"golang.zx2c4.com/wireguard/tun"
	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/dataplane/wireguard/ends"
	"github.com/tulle-net/tulle/pkg/kernel"
	"github.com/tulle-net/tulle/pkg/wireguardprocess"
)

// running is a device whose packets are moved, and which is configured by its sockets.
type running struct {
	device  *device.Device
	peers   *peers
	sockets []net.Listener
	accepts sync.WaitGroup
	done    chan struct{} // closed when the device has ended
}

// start begins to move the packets of a TUN device. It has no key and no peers until a
// client of its socket sends them.
func start(s wireguardprocess.Settings) (*running, error) {
	own, err := listen(s.Socket())
	if err != nil {
		return nil, err
	}
	t, err := open(s.Interface)
	if err != nil {
		own.Close()
		return nil, err
	}
	known := newPeers()
	inner, sockets, err := joined(t, known.drop)
	if err != nil {
		own.Close()
		t.Close()
		return nil, err
	}
	r := &running{device: device.NewDevice(inner, sockets, newLogger(s.Interface)), peers: known, done: make(chan struct{})}
	if err := r.device.Up(); err != nil {
		own.Close()
		r.device.Close()
		return nil, fmt.Errorf("open the UDP sockets of %s: %w", s.Interface, err)
	}
	go func() {
		<-r.device.Wait() // also when another program deletes the TUN device
		close(r.done)
	}()
	r.serve(own)
	if tools, err := listenForTools(s.Interface); err == nil {
		r.serve(tools)
	} else {
		klog.ErrorS(err, "Failed to open the socket of wg, which cannot show this device; tulled has another socket", "link", s.Interface)
	}
	return r, nil
}

// joined returns both ends of the device.
func joined(t tun.Device, drop func()) (tun.Device, conn.Bind, error) {
	k, err := kernel.New("")
	if err != nil {
		return nil, nil, err
	}
	inner, sockets, err := ends.New(t, k, drop)
	if err != nil {
		k.Close()
	}
	return inner, sockets, err
}

// listen opens the daemon's socket. The folder is locked, so a socket that exists is that
// of a process that has crashed.
func listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", path)
}

// listenForTools opens the socket that wg looks for.
func listenForTools(link string) (net.Listener, error) {
	f, err := ipc.UAPIOpen(link)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ipc.UAPIListen(link, f)
}

// serve answers the clients of a socket until it is closed.
func (r *running) serve(l net.Listener) {
	r.sockets = append(r.sockets, l)
	r.accepts.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.device.IpcHandle(&client{Conn: c, device: r.device, peers: r.peers})
		}
	})
}

// Done implements program.Work.
func (r *running) Done() <-chan struct{} { return r.done }

// Stop implements program.Work. The TUN device stays, and drops what it is given.
func (r *running) Stop() error {
	for _, l := range r.sockets {
		l.Close()
	}
	r.device.Close()
	r.accepts.Wait()
	return nil
}

const tunFile = "/dev/net/tun"

// open attaches to an existing TUN device, to which no other program is attached.
func open(name string) (tun.Device, error) {
	is, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("find link %s: %w; tulled makes it", name, err)
	}
	fd, err := unix.Open(tunFile, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w: give the service or the container this file", tunFile, err)
	}
	if err := attach(fd, name); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("link %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), tunFile)
	t, err := tun.CreateTUNFromFile(f, is.MTU)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("link %s: %w", name, err)
	}
	return t, nil
}

// attach makes an open file that of a device.
func attach(fd int, name string) error {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	switch err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%w: another program moves its packets; find it with «grep -l %s /proc/*/fdinfo/*»", err, name)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: it is no TUN device with one queue; tulled makes that", err)
	default:
		return os.NewSyscallError("TUNSETIFF", err)
	}
}
