// Package host finds where rules stand on this host, and has a keeper of the
// firewall keep them there.
package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/pkg/firewall/iptables"
	"github.com/tulle-net/tulle/pkg/firewall/nft"
	"github.com/tulle-net/tulle/subnet"
)

// lookAnyway is how often rules are looked at whose changes are heard of.
const lookAnyway = 5 * time.Minute

// Kind is what rules are written as.
type Kind string

// The kinds of rules. Auto leaves the choice to the network's config and to what
// the host has; None removes what an earlier run wrote.
const (
	Auto     Kind = "auto"
	NFTables Kind = "nftables"
	IPTables Kind = "iptables"
	None     Kind = "none"
)

// NewKeeper returns what keeps rules of a kind in this host's firewall. It polls
// legacy tables every resync, spends from the account what other programs cause it to
// do, and calls changed when its status changes.
func NewKeeper(kind Kind, resync time.Duration, healing *budget.Account, changed func()) *firewall.Keeper {
	f := &finder{tables: nft.Open(""), legacy: iptables.OpenLegacy(iptables.Options{}), resync: resync}
	return firewall.NewKeeper(func(ctx context.Context, nftables subnet.Choice) ([]firewall.Part, error) {
		return f.find(ctx, kind, nftables)
	}, healing, changed)
}

// finder finds where rules stand, among all that this host has for them.
type finder struct {
	tables *nft.Tables
	legacy *iptables.LegacyTables
	resync time.Duration // the poll interval of legacy tables

	told     remark // what the log knows
	prepared bool   // what the kernel may need was tried
}

// find is where rules stand on this host.
func (f *finder) find(ctx context.Context, flag Kind, config subnet.Choice) ([]firewall.Part, error) {
	var inIPTables []firewall.Part
	kind, say, err := choose(flag, config, f.tables.Check, func() (err error) {
		inIPTables, err = f.iptables(ctx)
		return err
	})
	if say != f.told && say.text != "" {
		klog.InfoS(say.text, "reason", say.reason)
	}
	f.told = say
	if err != nil {
		return nil, err
	}
	if kind != None && !f.prepared {
		f.prepared = true
		loadBridgeFilter()
	}
	switch kind {
	case None:
		return f.none(), nil
	case NFTables:
		return f.nftables(), nil
	}
	return inIPTables, nil
}

// remark is what the log is to say of a choice; the zero remark is nothing.
type remark struct{ text, reason string }

// choose says what rules are written as: what the flag says, else what the config
// does, else nftables where the host has it. The functions say why rules cannot be
// written as either; iptables is asked last where it is chosen.
func choose(flag Kind, config subnet.Choice, nftables, iptables func() error) (kind Kind, say remark, err error) {
	switch {
	case flag == IPTables:
		if config == subnet.Yes {
			say = remark{"Writing rules by iptables, whatever the network's config says", "--filter=iptables counts for more than EnableNFTables, which is true"}
		}
		return flag, say, iptables()
	case flag != Auto:
		if flag == NFTables && config == subnet.No {
			say = remark{"Writing rules to nftables, whatever the network's config says", "--filter=nftables counts for more than EnableNFTables, which is false"}
		}
		return flag, say, nil
	case config == subnet.No:
		err = iptables()
		if err == nil {
			return IPTables, say, nil
		}
		if absent := nftables(); absent != nil {
			return "", say, errors.Join(err, absent)
		}
		return NFTables, remark{"Writing rules to nftables, for iptables, which the network's config has by EnableNFTables false, cannot be used here", err.Error()}, nil
	}
	err = nftables()
	switch {
	case err == nil:
		return NFTables, say, nil
	case config == subnet.Yes:
		return "", say, fmt.Errorf("the network's config has EnableNFTables true: %w; have the kernel have it (modprobe nf_tables nft_masq), or start with --filter=iptables on this host", err)
	case errors.Is(err, unix.EPERM):
		return "", say, err // nor would iptables do
	}
	return IPTables, remark{"Writing rules by iptables", err.Error()}, iptables()
}

// nftables are the parts for rules in nftables. What legacy tables drop no other
// can let pass.
func (f *finder) nftables() []firewall.Part {
	nat, forward := nft.NAT{Tables: f.tables}, nft.Forward{Tables: f.tables}
	return []firewall.Part{
		{Name: "masquerade", Engine: nat, Wants: everything, Watch: nat.Watch, Every: lookAnyway},
		{Name: "forward", Engine: forward, Wants: everything, Watch: forward.Watch, Every: lookAnyway},
		{Name: "legacy iptables", Engine: f.legacy, Wants: forwards, Every: f.resync},
		f.others(),
		{Name: "earlier iptables rules", Engine: removal{"tulle's own iptables rules", f.tables.RemoveIPTables}},
		f.flannel(),
	}
}

// iptables are the parts for rules in the tables of iptables that the others on
// this host use. Those of the other kind may drop packets too.
func (f *finder) iptables(ctx context.Context) ([]firewall.Part, error) {
	host, err := iptables.Found(ctx, iptables.Options{})
	if err != nil {
		return nil, err
	}
	chosen, why, err := host.Choose()
	if err != nil {
		return nil, err
	}
	klog.InfoS("Writing rules by iptables", "tables", chosen.Kind, "version", chosen.Version, "reason", why)
	if !chosen.Version.RandomPorts() {
		klog.InfoS("Masquerading without fully random ports, which these commands are too old for")
	}
	var parts []firewall.Part
	for _, v := range host.Variants {
		if v.Err != nil { // commands without a kernel for them
			continue
		}
		p := firewall.Part{Name: string(v.Kind) + " iptables", Engine: iptables.New(v, iptables.Options{}), Wants: forwards, Every: f.resync}
		if v.Kind == chosen.Kind {
			p.Wants = everything
		}
		if v.Kind == iptables.NFT {
			p.Watch, p.Every = f.tables.WatchIPTables, lookAnyway
		}
		parts = append(parts, p)
	}
	if f.tables.Check() == nil {
		parts = append(parts, f.others())
	}
	return append(append(parts, f.native()...), f.flannel()), nil
}

// others is the part that tells of those who drop where no rule of ours helps.
func (f *finder) others() firewall.Part {
	others := &nft.Others{Tables: f.tables}
	return firewall.Part{Name: "others' chains", Engine: others, Wants: everything, Watch: others.Watch, Tell: others.Tell, Every: lookAnyway}
}

// none are the parts that remove what an earlier run wrote, told otherwise.
func (f *finder) none() []firewall.Part {
	return append(f.native(),
		firewall.Part{Name: "earlier legacy iptables rules", Engine: f.legacy},
		firewall.Part{Name: "earlier iptables rules", Engine: removal{"tulle's own iptables rules", f.tables.RemoveIPTables}})
}

// native are the parts that remove nftables rules.
func (f *finder) native() []firewall.Part {
	return []firewall.Part{
		{Name: "earlier nftables rules", Engine: nft.NAT{Tables: f.tables}},
		{Name: "earlier accepts", Engine: nft.Forward{Tables: f.tables}},
	}
}

// flannel is the part that removes flannel's rules, wherever they are.
func (f *finder) flannel() firewall.Part {
	return firewall.Part{Name: "what flannel left", Engine: removal{"flannel's rules", func(ctx context.Context) ([]string, error) {
		inNFTables, err := f.tables.RemoveFlannel(ctx)
		if err != nil {
			return inNFTables, err
		}
		inLegacy, err := f.legacy.RemoveFlannel(ctx)
		return append(inNFTables, inLegacy...), err
	}}}
}

func everything(r firewall.Rules) firewall.Rules { return r }

// forwards are the rules by which packets pass, alone.
func forwards(r firewall.Rules) firewall.Rules {
	return firewall.Rules{Networks: r.Networks, Own: r.Own, Forward: r.Forward}
}

// removal is an engine for rules that nobody wants any more.
type removal struct {
	what   string
	remove func(context.Context) (removed []string, err error)
}

// Sync implements firewall.Engine.
func (r removal) Sync(ctx context.Context, _ firewall.Rules) (changed bool, err error) {
	removed, err := r.remove(ctx)
	if len(removed) > 0 {
		klog.InfoS("Removed "+r.what, "removed", strings.Join(removed, ", "))
	}
	return false, err
}

// loadBridgeFilter has the kernel show packets between containers on one bridge
// to its firewall, which services of Kubernetes need. What else there is does
// not.
func loadBridgeFilter() {
	const settings = "/proc/sys/net/bridge"
	if _, err := os.Stat(settings); err == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "modprobe", "br_netfilter").CombinedOutput(); err != nil {
		klog.InfoS("Could not load br_netfilter, without which a container does not reach a Kubernetes service that leads back to its own host; if there are any: modprobe br_netfilter",
			"err", err, "output", strings.TrimSpace(string(out)))
	}
}
