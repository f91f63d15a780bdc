package nft

import (
	"errors"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/firewall"
)

// withoutNetfilter calls f on a thread that may not open netfilter sockets, as on a
// kernel without netfilter. The thread ends after that.
func withoutNetfilter(t *testing.T, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		const number, protocol = 0, 32
		filter := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SOCKET, Jf: 3},
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: protocol},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.NETLINK_NETFILTER, Jf: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPROTONOSUPPORT)},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
		}
		if err == nil {
			if _, refused := dial("", 0); !errors.Is(refused, errAbsent) {
				err = errors.Join(errors.New("a socket is refused with another error"), refused)
			}
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestKernelWithoutNFTables checks that there is nothing to remove, and no place to
// write to, in a kernel without nf_tables.
func TestKernelWithoutNFTables(t *testing.T) {
	withoutNetfilter(t, func() {
		tables := Open("")
		for _, e := range []firewall.Engine{NAT{tables}, Forward{tables}} {
			if changed, err := e.Sync(t.Context(), firewall.Rules{}); changed || err != nil {
				t.Errorf("%T: %t, %v", e, changed, err)
			}
		}
		for _, remove := range []func() ([]string, error){
			func() ([]string, error) { return tables.RemoveFlannel(t.Context()) },
			func() ([]string, error) { return tables.RemoveIPTables(t.Context()) },
		} {
			if removed, err := remove(); len(removed) > 0 || err != nil {
				t.Error(removed, err)
			}
		}
		if _, err := (NAT{tables}).Sync(t.Context(), dual()); !errors.Is(err, errAbsent) {
			t.Errorf("rules without a place for them: %v", err)
		}
		if err := tables.Check(); !errors.Is(err, errAbsent) {
			t.Error(err)
		}
	})
}
