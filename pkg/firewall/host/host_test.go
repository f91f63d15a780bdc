package host

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/subnet"
)

// TestChoosesFirewallOfHost checks that the flag, the config and the host, in this
// order, choose between nftables and iptables.
func TestChoosesFirewallOfHost(t *testing.T) {
	const auto, nft, ipt, none = Auto, NFTables, IPTables, None
	old, bare := errors.New("an old kernel"), errors.New("no commands")
	forbidden := fmt.Errorf("write: %w", unix.EPERM)
	for _, c := range []struct {
		flag       Kind
		config     subnet.Choice
		nftables   error
		iptables   error
		want       Kind
		says, fail string
	}{
		{flag: auto, want: nft},
		{flag: auto, iptables: bare, want: nft},
		{flag: auto, nftables: old, want: ipt, says: "iptables: an old kernel"},
		{flag: auto, nftables: old, iptables: bare, says: "an old kernel", fail: "no commands"},
		{flag: auto, nftables: forbidden, fail: "not permitted"},

		{flag: auto, config: subnet.Yes, want: nft},
		{flag: auto, config: subnet.Yes, nftables: old, fail: "EnableNFTables is true: an old kernel; load the kernel's modules (modprobe nf_tables nft_masq), or set --kind=iptables"},

		{flag: auto, config: subnet.No, want: ipt},
		{flag: auto, config: subnet.No, nftables: old, want: ipt},
		{flag: auto, config: subnet.No, iptables: bare, want: nft, says: "EnableNFTables is false, but iptables cannot be used: no commands"},
		{flag: auto, config: subnet.No, nftables: old, iptables: bare, fail: "no commands\nan old kernel"},

		{flag: nft, want: nft},
		{flag: nft, config: subnet.Yes, want: nft},
		{flag: nft, config: subnet.Yes, nftables: old, want: nft}, // the write fails instead
		{flag: nft, config: subnet.No, want: nft, says: "--kind=nftables overrides EnableNFTables, which is false"},
		{flag: ipt, nftables: old, want: ipt},
		{flag: ipt, config: subnet.No, want: ipt},
		{flag: ipt, config: subnet.Yes, want: ipt, says: "--kind=iptables overrides EnableNFTables, which is true"},
		{flag: ipt, iptables: bare, fail: "no commands"},
		{flag: none, config: subnet.Yes, nftables: old, iptables: bare, want: none},
		{flag: none, config: subnet.No, want: none},
	} {
		name := fmt.Sprintf("--kind=%s, config %s, nftables %v, iptables %v", c.flag, c.config, c.nftables, c.iptables)
		kind, say, err := choose("--kind", c.flag, c.config, func() error { return c.nftables }, func() error { return c.iptables })
		switch text := string(say.kind) + ": " + say.reason; {
		case c.fail == "" && (err != nil || kind != c.want):
			t.Errorf("%s: %s, %v", name, kind, err)
		case c.fail != "" && (err == nil || !strings.Contains(err.Error(), c.fail)):
			t.Errorf("%s: %v", name, err)
		case c.says == "" && text != ": " || !strings.Contains(text, c.says):
			t.Errorf("%s: says %q", name, text)
		}
	}
}
