package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

func tunLink(name string) netstate.Link {
	return netstate.Link{Name: name, Kind: netstate.TunnelUDP, MTU: 1472, Group: netstate.Mark, Up: true}
}

// TestTUNOutlivesItsProgram makes a device that no program uses, with what is on it.
func TestTUNOutlivesItsProgram(t *testing.T) {
	ns := kerneltest.NewNS(t, "tun")
	k := open(t, ns)
	link := tunLink("tulle.udp")
	want := netstate.Of(link,
		netstate.Addr{Link: link.Name, Prefix: netip.MustParsePrefix("10.5.34.0/32")},
		netstate.Route{Dst: netip.MustParsePrefix("10.5.0.0/16"), Link: link.Name},
		netstate.Route{Dst: netip.MustParsePrefix("10.5.35.0/24"), Link: link.Name, MTU: 1400},
	)
	apply := func() {
		t.Helper()
		has, err := k.Dump(t.Context(), netstate.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Apply(t.Context(), netstate.Diff(want, has)); err != nil {
			t.Fatal(err)
		}
		if has, err = k.Dump(t.Context(), netstate.Scope{}); err != nil {
			t.Fatal(err)
		}
		if plan := netstate.Diff(want, has); len(plan) > 0 {
			t.Fatalf("still to do:\n%s", plan)
		}
	}
	apply()
	if is := ns.IP(t, "-d link show dev tulle.udp"); !strings.Contains(is, "multi_queue") || !strings.Contains(is, "persist on") || !strings.Contains(is, "qlen 4096") {
		t.Errorf("it is %s", is)
	}

	// One with a single queue is of another kind.
	ns.IP(t, "link delete tulle.udp")
	ns.IP(t, "tuntap add mode tun vnet_hdr name tulle.udp")
	apply()

	// One that another program made for itself is replaced.
	ns.IP(t, "link delete tulle.udp")
	ns.IP(t, "tuntap add mode tap name tulle.udp")
	apply()
	ns.IP(t, "link delete tulle.udp")
	ns.IP(t, "tuntap add mode tun name tulle.udp")
	apply()
	want = netstate.Of()
	apply()
}

// TestOneProgramMovesPacketsOfWireGuard attaches twice to a device of one queue.
func TestOneProgramMovesPacketsOfWireGuard(t *testing.T) {
	ns := kerneltest.NewNS(t, "tun")
	k := open(t, ns)
	link := tunLink("tulle-wg")
	link.Kind = netstate.TunnelWireGuardTUN
	for range 2 { // it can change while it lives
		link.MTU--
		has, err := k.Dump(t.Context(), netstate.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Apply(t.Context(), netstate.Diff(netstate.Of(link), has)); err != nil {
			t.Fatal(err)
		}
	}
	if has, err := k.Dump(t.Context(), netstate.Scope{}); err != nil || len(netstate.Diff(netstate.Of(link), has)) > 0 {
		t.Errorf("there is %v, %v", has, err)
	}
	attach := func() (fd int, err error) {
		ns.Do(t, func() error {
			var request *unix.Ifreq
			if fd, err = unix.Open(tunFile, unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
				return err
			}
			if request, err = unix.NewIfreq(link.Name); err != nil {
				return err
			}
			request.SetUint16(flagsOf(link.Kind))
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
			return nil
		})
		return fd, err
	}
	first, err := attach()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(first)
	second, err := attach()
	defer unix.Close(second)
	if !errors.Is(err, unix.EBUSY) {
		t.Errorf("a second program attaches: %v", err)
	}
}

// TestNoOtherUserTakesPackets: the file of all TUN devices is open to every user.
func TestNoOtherUserTakesPackets(t *testing.T) {
	ns := kerneltest.NewNS(t, "tun")
	k := open(t, ns)
	link := tunLink("tulle.udp")
	if err := k.Apply(t.Context(), netstate.Plan{{Verb: netstate.Create, Object: link}}); err != nil {
		t.Fatal(err)
	}
	var fd int
	ns.Do(t, func() (err error) {
		fd, err = unix.Open(tunFile, unix.O_RDWR|unix.O_CLOEXEC, 0)
		return err
	})
	defer unix.Close(fd)
	attach := func() error {
		request, err := unix.NewIfreq(link.Name)
		if err != nil {
			return err
		}
		request.SetUint16(flagsOf(link.Kind))
		return unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	const other, same = 65534, ^uintptr(0)
	refused := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its user
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, other, same); errno != 0 {
			refused <- fmt.Errorf("setresuid: %s", errno)
			return
		}
		refused <- attach()
	}()
	if err := <-refused; !errors.Is(err, unix.EPERM) {
		t.Errorf("another user attaches to the device: %v", err)
	}
	if err := attach(); err != nil {
		t.Errorf("its owner attaches to the device: %v", err)
	}
}

// TestPeersOfAProgramAreNotTheKernels: a plan for another part of the host fails.
func TestPeersOfAProgramAreNotTheKernels(t *testing.T) {
	k := open(t, kerneltest.NewNS(t, "tun"))
	peer := netstate.UDPPeer{Link: "tulle.udp", Prefix: netip.MustParsePrefix("10.5.35.0/24"), Endpoint: netip.MustParseAddrPort("198.18.0.2:8285")}
	err := k.Apply(t.Context(), netstate.Plan{{Verb: netstate.Create, Object: tunLink("tulle.udp")}, {Verb: netstate.Create, Object: peer}})
	if err == nil || !strings.Contains(err.Error(), "no program moves the link's packets") {
		t.Errorf("it ends with %v", err)
	}
}
