package kernel

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// set changes a setting as another program does.
func set(t testing.TB, ns *kerneltest.NS, o netstate.Object) {
	t.Helper()
	apply(t, open(t, ns), netstate.Plan{{Verb: netstate.Replace, Object: o}})
}

// TestTxChecksumOfNewDevice sets the checksum offload in one plan with the device,
// which has it on at first.
func TestTxChecksumOfNewDevice(t *testing.T) {
	ns := host(t)
	k := open(t, ns)
	link, off := vxlanLink("tulle.1"), netstate.TxChecksum("tulle.1", "off")
	rebuilt := link
	rebuilt.VXLAN.VNI = 9
	for _, l := range []netstate.Link{link, rebuilt} {
		want := netstate.Of(l, off)
		apply(t, k, netstate.Diff(want, dump(t, k, want)))
		if got := netstate.Of(dump(t, k, want)...); !got.Equal(want) {
			t.Errorf("there is\n%swant\n%s", got, want)
		}
	}
}

func TestTxChecksumRefused(t *testing.T) {
	ns := host(t)
	k := open(t, ns)
	for _, c := range []struct {
		setting netstate.Sysctl
		err     error
		says    string
	}{
		{netstate.TxChecksum("lo", "off"), syscall.EOPNOTSUPP, "it is on"}, // it has no checksums to offload
		{netstate.TxChecksum("eth0", "no"), syscall.EINVAL, `"no" is neither on nor off`},
		{netstate.TxChecksum("eth9", "off"), syscall.ENODEV, ""},
		{netstate.TxChecksum("eth0"+strings.Repeat("0", 12), "off"), syscall.ENODEV, ""},
	} {
		err := k.Apply(context.Background(), netstate.Plan{{Verb: netstate.Create, Object: c.setting}})
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %v", c.setting, err, c.err)
		}
	}
	// An unchanged value needs no rights, and a missing link has none.
	want := netstate.Of(netstate.TxChecksum("lo", "on"), netstate.TxChecksum("eth9", "on"))
	set(t, ns, netstate.TxChecksum("lo", "on"))
	if got := netstate.Of(dump(t, k, want)...).String(); got != "sysctl ethtool/lo/tx-checksum=on\n" {
		t.Errorf("there is\n%s", got)
	}
}
