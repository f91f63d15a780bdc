package iptables

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/subnet"
)

const (
	// glance is how often the size of legacy tables is looked at, of whose changes
	// the kernel tells nobody: one call a table, which copies a few numbers.
	glance = 100 * time.Millisecond
	// idle is how often that is where there are none.
	idle = time.Second
	// getInfo is IPT_SO_GET_INFO, and IP6T_SO_GET_INFO.
	getInfo = 64
	// nameSize is what the name of a table is written in.
	nameSize = 32
)

// Watch calls poke when it begins, and soon after rules came or went in a legacy
// table that is in use. That others changed places it does not see.
func (l *LegacyTables) Watch(ctx context.Context, poke func()) error {
	poke()
	var sockets subnet.Pair[int] // 0 as long as there is nothing to ask
	defer func() {
		for _, fd := range sockets {
			if fd > 0 {
				unix.Close(fd)
			}
		}
	}()
	known := make(map[string]info)
	timer := time.NewTicker(idle)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		now := make(map[string]info)
		for _, f := range subnet.Families {
			names, err := l.options.legacy(f)
			if err != nil {
				return err
			}
			if len(names) > 0 && sockets[f] == 0 {
				if sockets[f], err = socket(f); err != nil {
					return err
				}
			}
			for _, name := range names {
				i, err := infoOf(sockets[f], f, name)
				if err != nil {
					return fmt.Errorf("look at the %s table %s of legacy iptables: %w", f, name, err)
				}
				now[f.String()+name] = i
			}
		}
		pause := idle
		if len(now) > 0 {
			pause = glance
		}
		timer.Reset(pause)
		changed := len(now) != len(known)
		for name, i := range now {
			changed = changed || known[name] != i
		}
		if known = now; changed {
			poke()
		}
	}
}

// info is how large a table is.
type info struct{ entries, size uint32 }

// socket is one to ask about tables by. It receives nothing.
func socket(f subnet.Family) (fd int, err error) {
	domain := subnet.Pair[int]{unix.AF_INET, unix.AF_INET6}[f]
	if fd, err = unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW); err != nil {
		return 0, fmt.Errorf("open a socket to look at legacy iptables: %w", err)
	}
	return fd, nil
}

// infoOf asks the kernel about a table that is in use; one that is not it would
// make.
func infoOf(fd int, f subnet.Family, table string) (info, error) {
	level := subnet.Pair[int]{unix.SOL_IP, unix.SOL_IPV6}[f]
	// struct ipt_getinfo: the name, the hooks, where each begins and ends, the
	// number of entries, and their size.
	var answer [nameSize + 4 + 5*4 + 5*4 + 4 + 4]byte
	copy(answer[:nameSize-1], table)
	size := uint32(len(answer))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), getInfo,
		uintptr(unsafe.Pointer(&answer[0])), uintptr(unsafe.Pointer(&size)), 0)
	runtime.KeepAlive(&answer)
	if errno != 0 {
		return info{}, errno
	}
	end := answer[len(answer)-8:]
	return info{binary.NativeEndian.Uint32(end), binary.NativeEndian.Uint32(end[4:])}, nil
}
