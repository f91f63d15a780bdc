package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/cidrfile"
	"github.com/tulle-net/tulle/pkg/masq"
	"github.com/tulle-net/tulle/pkg/masq/iptables"
	"github.com/tulle-net/tulle/pkg/masq/nft"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/subnet"
)

// lookAnyway is how often rules are looked at whose changes are heard of.
const lookAnyway = 5 * time.Minute

// newFirewall makes what keeps rules in this host's firewall.
func newFirewall(o options.Filtering, changed func()) *masq.Keeper {
	f := &firewall{tables: nft.Open(""), legacy: iptables.OpenLegacy(iptables.Options{Resync: o.Resync})}
	return masq.NewKeeper(func(ctx context.Context, nftables subnet.Choice) ([]masq.Part, error) {
		return f.find(ctx, o.Filter, nftables)
	}, changed)
}

// firewall is all that this host has for rules to stand in.
type firewall struct {
	tables *nft.Tables
	legacy *iptables.LegacyTables

	told     remark // what the log knows
	prepared bool   // what the kernel may need was tried
}

// find is where rules stand on this host.
func (f *firewall) find(ctx context.Context, flag options.Filter, config subnet.Choice) ([]masq.Part, error) {
	var inIPTables []masq.Part
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
	if kind != options.FilterNone && !f.prepared {
		f.prepared = true
		loadBridgeFilter()
	}
	switch kind {
	case options.FilterNone:
		return f.none(), nil
	case options.FilterNFTables:
		return f.nftables(), nil
	}
	return inIPTables, nil
}

// remark is what the log is to say of a choice; the zero remark is nothing.
type remark struct{ text, reason string }

// choose says what rules are written as: what the flag says, else what the config
// does, else nftables where the host has it. The functions say why rules cannot be
// written as either; iptables is asked last where it is chosen.
func choose(flag options.Filter, config subnet.Choice, nftables, iptables func() error) (kind options.Filter, say remark, err error) {
	switch {
	case flag == options.FilterIPTables:
		if config == subnet.Yes {
			say = remark{"Writing rules by iptables, whatever the network's config says", "--filter=iptables counts for more than EnableNFTables, which is true"}
		}
		return flag, say, iptables()
	case flag != options.FilterAuto:
		if flag == options.FilterNFTables && config == subnet.No {
			say = remark{"Writing rules to nftables, whatever the network's config says", "--filter=nftables counts for more than EnableNFTables, which is false"}
		}
		return flag, say, nil
	case config == subnet.No:
		err = iptables()
		if err == nil {
			return options.FilterIPTables, say, nil
		}
		if absent := nftables(); absent != nil {
			return "", say, errors.Join(err, absent)
		}
		return options.FilterNFTables, remark{"Writing rules to nftables, for iptables, which the network's config has by EnableNFTables false, cannot be used here", err.Error()}, nil
	}
	err = nftables()
	switch {
	case err == nil:
		return options.FilterNFTables, say, nil
	case config == subnet.Yes:
		return "", say, fmt.Errorf("the network's config has EnableNFTables true: %w; have the kernel have it (modprobe nf_tables nft_masq), or start with --filter=iptables on this host", err)
	case errors.Is(err, unix.EPERM):
		return "", say, err // nor would iptables do
	}
	return options.FilterIPTables, remark{"Writing rules by iptables", err.Error()}, iptables()
}

// nftables are the parts for rules in nftables. What legacy tables drop no other
// can let pass.
func (f *firewall) nftables() []masq.Part {
	nat, forward := nft.NAT{Tables: f.tables}, nft.Forward{Tables: f.tables}
	return []masq.Part{
		{Name: "masquerade", Engine: nat, Wants: everything, Watch: nat.Watch, Every: lookAnyway},
		{Name: "forward", Engine: forward, Wants: everything, Watch: forward.Watch, Every: lookAnyway},
		{Name: "legacy iptables", Engine: f.legacy, Wants: forwards, Watch: f.legacy.Watch, Every: lookAnyway},
		f.others(),
		{Name: "earlier iptables rules", Engine: removal{"tulle's own iptables rules", f.tables.RemoveIPTables}},
		f.flannel(),
	}
}

// iptables are the parts for rules in the tables of iptables that the others on
// this host use. Those of the other kind may drop packets too.
func (f *firewall) iptables(ctx context.Context) ([]masq.Part, error) {
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
	var parts []masq.Part
	for _, v := range host.Variants {
		if v.Err != nil { // commands without a kernel for them
			continue
		}
		p := masq.Part{Name: string(v.Kind) + " iptables", Engine: iptables.New(v, iptables.Options{}), Wants: forwards, Watch: f.legacy.Watch, Every: lookAnyway}
		if v.Kind == chosen.Kind {
			p.Wants = everything
		}
		if v.Kind == iptables.NFT {
			p.Watch = f.tables.WatchIPTables
		}
		parts = append(parts, p)
	}
	if f.tables.Check() == nil {
		parts = append(parts, f.others())
	}
	return append(append(parts, f.native()...), f.flannel()), nil
}

// others is the part that tells of those who drop where no rule of ours helps.
func (f *firewall) others() masq.Part {
	others := &nft.Others{Tables: f.tables}
	return masq.Part{Name: "others' chains", Engine: others, Wants: everything, Watch: others.Watch, Tell: others.Tell, Every: lookAnyway}
}

// none are the parts that remove what an earlier run wrote, told otherwise.
func (f *firewall) none() []masq.Part {
	return append(f.native(),
		masq.Part{Name: "earlier legacy iptables rules", Engine: f.legacy},
		masq.Part{Name: "earlier iptables rules", Engine: removal{"tulle's own iptables rules", f.tables.RemoveIPTables}})
}

// native are the parts that remove nftables rules.
func (f *firewall) native() []masq.Part {
	return []masq.Part{
		{Name: "earlier nftables rules", Engine: nft.NAT{Tables: f.tables}},
		{Name: "earlier accepts", Engine: nft.Forward{Tables: f.tables}},
	}
}

// flannel is the part that removes flannel's rules, wherever they are.
func (f *firewall) flannel() masq.Part {
	return masq.Part{Name: "what flannel left", Engine: removal{"flannel's rules", func(ctx context.Context) ([]string, error) {
		inNFTables, err := f.tables.RemoveFlannel(ctx)
		if err != nil {
			return inNFTables, err
		}
		inLegacy, err := f.legacy.RemoveFlannel(ctx)
		return append(inNFTables, inLegacy...), err
	}}}
}

func everything(r masq.Rules) masq.Rules { return r }

// forwards are the rules by which packets pass, alone.
func forwards(r masq.Rules) masq.Rules {
	return masq.Rules{Networks: r.Networks, Own: r.Own, Forward: r.Forward}
}

// removal is an engine for rules that nobody wants any more.
type removal struct {
	what   string
	remove func(context.Context) (removed []string, err error)
}

// Sync implements masq.Engine.
func (r removal) Sync(ctx context.Context, _ masq.Rules) (changed bool, err error) {
	removed, err := r.remove(ctx)
	if len(removed) > 0 {
		klog.InfoS("Removed "+r.what, "removed", strings.Join(removed, ", "))
	}
	return false, err
}

// exemptions follows the file of networks that see the containers' own addresses;
// nil if there is none.
func exemptions(path string) func(context.Context, func([]netip.Prefix)) {
	if path == "" {
		return nil
	}
	return func(ctx context.Context, to func([]netip.Prefix)) { cidrfile.Follow(ctx, path, to) }
}

// wantedRules are those that do not depend on the network.
func wantedRules(o options.Filtering) masq.Rules {
	return masq.Rules{Masquerade: o.Masquerade, Random: !o.PlainPorts, Exempt: slices.Clone(o.Exempt), Forward: o.Forward}
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
