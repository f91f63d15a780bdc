package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/retry"
)

// Watch calls to with every change to a link, an address, a neighbour or forwarding
// entry, a route of the main table or a setting, by any program. It omits most of the
// changes that Apply made. Watch polls a setting whose changes the kernel does not
// announce, once the setting was dumped or applied. Some changes have no event of
// their own: a link that goes down loses its routes without one. Two goroutines may
// call to at a time. The first event is one of lost events, which means that Watch
// listens from now on. It returns when ctx ends or the socket fails.
func (k *Kernel) Watch(ctx context.Context, to func(netstate.Event)) error {
	return k.watch(ctx, &watcher{kernel: k, settings: true}, slices.Concat(hostGroups, tunnelGroups), to)
}

// WatchHost is Watch without neighbours, forwarding entries and settings. A node with
// many peers changes thousands of those, and the host's interfaces depend on none.
func (k *Kernel) WatchHost(ctx context.Context, to func(netstate.Event)) error {
	return k.watch(ctx, &watcher{kernel: k}, hostGroups, to)
}

// WatchRoutes calls changed after each change that may lead packets another way: to links,
// addresses, routes and rules of all tables. links reports whether links may have changed.
// The first call means that WatchRoutes listens from now on. It returns when ctx ends or the
// socket fails.
func (k *Kernel) WatchRoutes(ctx context.Context, changed func(links bool)) error {
	w := &watcher{kernel: k}
	if err := w.subscribe(slices.Concat(hostGroups, ruleGroups)); err != nil {
		return err
	}
	defer w.file.Close()
	defer context.AfterFunc(ctx, func() { w.file.Close() })()
	changed(true)
	buf := make([]byte, readSize)
	for {
		n, _, err := w.receive(buf)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !errors.Is(err, unix.ENOBUFS):
			return fmt.Errorf("watch the kernel: %w", err)
		}
		links := err != nil
		for m := range messages(buf[:n]) {
			links = links || m.typ == unix.RTM_NEWLINK || m.typ == unix.RTM_DELLINK
		}
		changed(links)
	}
}

func (k *Kernel) watch(ctx context.Context, w *watcher, groups []int, to func(netstate.Event)) error {
	if err := w.subscribe(groups); err != nil {
		return err
	}
	defer w.file.Close()
	defer context.AfterFunc(ctx, func() { w.file.Close() })()
	if err := w.learnNames(); err != nil {
		return err
	}
	to(netstate.Event{})
	whileWatching, cancel := context.WithCancel(ctx)
	var polling sync.WaitGroup
	defer polling.Wait()
	defer cancel()
	if w.settings {
		polling.Go(func() { k.poll(whileWatching, to) })
	}
	buf := make([]byte, readSize)
	var pace pace
	for {
		n, waited, err := w.receive(buf)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, unix.ENOBUFS):
			// Link events may be among the lost ones.
			if err := w.learnNames(); err != nil {
				return err
			}
			to(netstate.Event{})
		case err != nil:
			return fmt.Errorf("watch the kernel: %w", err)
		}
		for m := range messages(buf[:n]) {
			w.decode(m, to)
		}
		if waited {
			retry.Sleep(ctx, pace.woken(time.Now()))
		}
	}
}

// watcher is one running Watch.
type watcher struct {
	file     *os.File // the socket, in the runtime's poller so that closing it ends a receive
	kernel   *Kernel
	names    names
	settings bool // reports settings, too
}

var (
	hostGroups = []int{
		unix.RTNLGRP_LINK,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
	}
	ruleGroups   = []int{unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE}
	tunnelGroups = []int{unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV4_NETCONF, unix.RTNLGRP_IPV6_NETCONF}
)

func (w *watcher) subscribe(groups []int) error {
	k := w.kernel
	return inNamespace(k.namespace, func() error {
		fd, err := socket(unix.NETLINK_ROUTE, unix.SOCK_NONBLOCK)
		if err != nil {
			return err
		}
		w.file = os.NewFile(uintptr(fd), "netlink")
		if err := leaveOut(fd, k.conn.port); err != nil {
			w.file.Close()
			return fmt.Errorf("filter events: %w", err)
		}
		for _, g := range groups {
			if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, g); err != nil {
				w.file.Close()
				return fmt.Errorf("join netlink group %d: %w", g, err)
			}
		}
		return nil
	})
}

// learnNames reads the names of all links. After that, events keep them current.
func (w *watcher) learnNames() (err error) {
	w.kernel.mu.Lock()
	defer w.kernel.mu.Unlock()
	w.names, err = w.kernel.conn.names()
	return err
}

// receive reads the next events. It reports whether it had to wait for them.
func (w *watcher) receive(buf []byte) (n int, waited bool, err error) {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return 0, false, err
	}
	pollErr := raw.Read(func(fd uintptr) bool {
		for {
			n, err = unix.Read(int(fd), buf) // unlike Recvfrom, it allocates nothing
			if err != unix.EINTR {
				waited = waited || err == unix.EAGAIN
				return err != unix.EAGAIN
			}
		}
	})
	if err == nil {
		err = pollErr
	}
	return max(n, 0), waited, err
}

func (w *watcher) decode(m message, to func(netstate.Event)) {
	switch m.typ {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		w.decodeLink(m, to)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		if a, ok := decodeAddr(m.body, w.names); ok {
			to(netstate.Event{Object: a, Gone: m.typ == unix.RTM_DELADDR})
		}
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		// An entry that is no longer permanent is not the one that we made.
		if o, permanent, ok := decodeNeigh(m.body, w.names); ok {
			to(netstate.Event{Object: o, Gone: m.typ == unix.RTM_DELNEIGH || !permanent})
		}
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		if r, ok := decodeRoute(m.body, w.names); ok {
			to(netstate.Event{Object: r, Gone: m.typ == unix.RTM_DELROUTE})
		}
	case unix.RTM_NEWNETCONF:
		w.kernel.reportSettings(decodeNetconf(m.body, w.names), to)
	}
}

// reportSettings reports settings that had an event. It reads their present value,
// because the event may be outdated, for example if a device was created and set up
// since.
func (k *Kernel) reportSettings(paths []string, to func(netstate.Event)) {
	settings, err := k.dumpSysctls(paths)
	if err != nil {
		return // the next resync will see
	}
	for _, o := range settings {
		to(netstate.Event{Object: o})
	}
}

// decodeLink also keeps the names. A rename is a removal and an addition, because
// links are known by name.
func (w *watcher) decodeLink(m message, to func(netstate.Event)) {
	if len(m.body) == 0 || m.body[0] == unix.AF_BRIDGE {
		return // of a bridge's port
	}
	index, name := linkName(m.body)
	before, known := w.names[index]
	if known && before != name {
		to(netstate.Event{Object: netstate.Link{Name: before}, Gone: true})
	}
	if m.typ == unix.RTM_DELLINK {
		delete(w.names, index)
		to(netstate.Event{Object: netstate.Link{Name: name}, Gone: true})
		return
	}
	w.names[index] = name
	if l, ok := decodeLink(m.body, w.names); ok {
		to(netstate.Event{Object: l})
	}
	if path, ok := decodeFeatures(m.body); ok && w.settings {
		w.kernel.reportSettings([]string{path}, to)
	}
}
