// Package host finds the places for rules on this host, and makes a keeper of the
// firewall keep them there.
package host

import (
	"cmp"
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

// lookAnyway is the interval of checks of rules whose changes are announced.
const lookAnyway = 5 * time.Minute

// Kind is the kind of rules.
type Kind string

// The kinds of rules. Auto leaves the choice to the network's config and to what
// the host has; None removes what an earlier run wrote.
const (
	Auto     Kind = "auto"
	NFTables Kind = "nftables"
	IPTables Kind = "iptables"
	None     Kind = "none"
)

// Options are which rules a keeper keeps.
type Options struct {
	Kind   Kind
	Resync time.Duration // the poll interval of legacy tables
	Names  Names
}

// Names are what errors and the log call settings, like --filter. Plain words stand for
// an empty one.
type Names struct {
	Kind string // the setting of the kind
	// Unforwarded is the setting that omits the rules which accept forwarded packets,
	// like --iptables-forward-rules=false.
	Unforwarded string
}

// NewKeeper returns the keeper of the rules in this host's firewall. It spends from
// the account what foreign changes cost, and calls changed when its status changes.
func NewKeeper(o Options, healing *budget.Account, changed func()) *firewall.Keeper {
	f := &finder{tables: nft.Open(""), legacy: iptables.OpenLegacy(iptables.Options{}), resync: o.Resync, names: o.Names}
	f.names.Kind = cmp.Or(f.names.Kind, "filter")
	return firewall.NewKeeper(func(ctx context.Context, nftables subnet.Choice) ([]firewall.Part, error) {
		return f.find(ctx, o.Kind, nftables)
	}, healing, changed)
}

// finder finds the places for rules among everything that this host has for them.
type finder struct {
	tables *nft.Tables
	legacy *iptables.LegacyTables
	resync time.Duration // the poll interval of legacy tables
	names  Names

	logged   remark // what was logged
	prepared bool   // what the kernel may need was tried
}

// find returns the parts of the firewall for this host.
func (f *finder) find(ctx context.Context, set Kind, config subnet.Choice) ([]firewall.Part, error) {
	var inIPTables []firewall.Part
	kind, say, err := choose(f.names.Kind, set, config, f.tables.Check, func() (err error) {
		inIPTables, err = f.iptables(ctx)
		return err
	})
	if say != f.logged && say.reason != "" {
		klog.InfoS("Chose where to write firewall rules", "kind", say.kind, "reason", say.reason)
	}
	f.logged = say
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

// remark is a choice that the log explains; the zero remark needs no line.
type remark struct {
	kind   Kind
	reason string
}

// choose returns the kind of rules: the setting's, else the config's, else nftables
// if the host has it. The functions return why a kind cannot be written; iptables is
// asked last if it is chosen. Texts call the setting by name.
func choose(name string, set Kind, config subnet.Choice, nftables, iptables func() error) (kind Kind, say remark, err error) {
	switch {
	case set == IPTables:
		if config == subnet.Yes {
			say = remark{IPTables, name + "=iptables overrides EnableNFTables, which is true"}
		}
		return set, say, iptables()
	case set != Auto:
		if set == NFTables && config == subnet.No {
			say = remark{NFTables, name + "=nftables overrides EnableNFTables, which is false"}
		}
		return set, say, nil
	case config == subnet.No:
		err = iptables()
		if err == nil {
			return IPTables, say, nil
		}
		if absent := nftables(); absent != nil {
			return "", say, errors.Join(err, absent)
		}
		return NFTables, remark{NFTables, "EnableNFTables is false, but iptables cannot be used: " + err.Error()}, nil
	}
	err = nftables()
	switch {
	case err == nil:
		return NFTables, say, nil
	case config == subnet.Yes:
		return "", say, fmt.Errorf("EnableNFTables is true: %w; load the kernel's modules (modprobe nf_tables nft_masq), or set %s=iptables on this host", err, name)
	case errors.Is(err, unix.EPERM):
		return "", say, err // iptables would fail too
	}
	return IPTables, remark{IPTables, err.Error()}, iptables()
}

// nftables returns the parts for rules in nftables. No other table can accept what
// legacy tables drop.
func (f *finder) nftables() []firewall.Part {
	nat, forward := nft.NAT{Tables: f.tables}, nft.Forward{Tables: f.tables}
	return []firewall.Part{
		{Name: "masquerade", Engine: nat, Wants: everything, Watch: nat.Watch, Dropped: nat.Dropped, Every: lookAnyway},
		{Name: "forward", Engine: forward, Wants: everything, Watch: forward.Watch, Every: lookAnyway},
		{Name: "legacy iptables", Engine: f.legacy, Wants: forwards, Every: f.resync},
		f.others(),
		{Name: "earlier iptables rules", Engine: removal{"tulle", f.tables.RemoveIPTables}},
		f.flannel(),
	}
}

// iptables returns the parts for rules in the iptables tables that other programs on
// this host use. The tables of the other kind may drop packets too.
func (f *finder) iptables(ctx context.Context) ([]firewall.Part, error) {
	host, err := iptables.Found(ctx, iptables.Options{})
	if err != nil {
		return nil, err
	}
	chosen, why, err := host.Choose()
	if err != nil {
		return nil, err
	}
	klog.InfoS("Writing rules to iptables", "tables", chosen.Kind, "version", chosen.Version, "reason", why)
	if !chosen.Version.RandomPorts() {
		klog.InfoS("Masquerading without fully random ports; the iptables commands are too old")
	}
	var parts []firewall.Part
	for _, v := range host.Variants {
		if v.Err != nil { // commands without a kernel for them
			continue
		}
		tables := iptables.New(v, iptables.Options{})
		p := firewall.Part{Name: string(v.Kind) + " iptables", Engine: tables, Wants: forwards, Every: f.resync}
		if v.Kind == chosen.Kind {
			p.Wants, p.Dropped = everything, tables.Dropped
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

// others returns the part that reports foreign chains that drop packets where no rule
// of ours helps.
func (f *finder) others() firewall.Part {
	others := &nft.Others{Tables: f.tables, Unforwarded: f.names.Unforwarded}
	return firewall.Part{Name: "foreign chains", Engine: others, Wants: everything, Watch: others.Watch, Tell: others.Tell, Every: lookAnyway}
}

// none returns the parts that remove what an earlier run wrote with other flags.
func (f *finder) none() []firewall.Part {
	return append(f.native(),
		firewall.Part{Name: "earlier legacy iptables rules", Engine: f.legacy},
		firewall.Part{Name: "earlier iptables rules", Engine: removal{"tulle", f.tables.RemoveIPTables}})
}

// native returns the parts that remove nftables rules.
func (f *finder) native() []firewall.Part {
	return []firewall.Part{
		{Name: "earlier nftables rules", Engine: nft.NAT{Tables: f.tables}},
		{Name: "earlier accepts", Engine: nft.Forward{Tables: f.tables}},
	}
}

// flannel returns the part that removes flannel's rules, wherever they are.
func (f *finder) flannel() firewall.Part {
	return firewall.Part{Name: "flannel's rules", Engine: removal{"flannel", func(ctx context.Context) ([]string, error) {
		inNFTables, err := f.tables.RemoveFlannel(ctx)
		if err != nil {
			return inNFTables, err
		}
		inLegacy, err := f.legacy.RemoveFlannel(ctx)
		return append(inNFTables, inLegacy...), err
	}}}
}

func everything(r firewall.Rules) firewall.Rules { return r }

// forwards returns only the rules that accept packets.
func forwards(r firewall.Rules) firewall.Rules {
	return firewall.Rules{Networks: r.Networks, Own: r.Own, Forward: r.Forward}
}

// removal is an engine that removes rules that are no longer wanted.
type removal struct {
	owner  string
	remove func(context.Context) (removed []string, err error)
}

// Sync implements firewall.Engine.
func (r removal) Sync(ctx context.Context, _ firewall.Rules) (changed bool, err error) {
	removed, err := r.remove(ctx)
	if len(removed) > 0 {
		klog.InfoS("Removed old firewall rules", "owner", r.owner, "removed", strings.Join(removed, ", "))
	}
	return false, err
}

// loadBridgeFilter makes the kernel pass packets between containers on one bridge
// through its firewall, which Kubernetes services need. Nothing else needs it.
func loadBridgeFilter() {
	const settings = "/proc/sys/net/bridge"
	if _, err := os.Stat(settings); err == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "modprobe", "br_netfilter").CombinedOutput(); err != nil {
		klog.InfoS("Failed to load br_netfilter; containers need it to reach a Kubernetes service that leads back to their own host",
			"err", err, "output", strings.TrimSpace(string(out)), "fix", "modprobe br_netfilter")
	}
}
