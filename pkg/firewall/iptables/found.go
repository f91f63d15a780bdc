package iptables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/tulle-net/tulle/subnet"
)

// Kind is one of the two sets of tables that a host may have.
type Kind string

// The two, as in the names of their commands.
const (
	Legacy Kind = "legacy"
	NFT    Kind = "nft"
)

// Variant is a set of tables that a host has commands for.
type Variant struct {
	Kind    Kind
	Version Version
	// Rules is the number of foreign rules in it, Kube whether kubelet or kube-proxy has
	// chains there, and Err why that is unknown.
	Rules int
	Kube  bool
	Err   error

	save, restore subnet.Pair[string] // "" if there is none
}

// Installed lists the variants of iptables on the host.
type Installed struct {
	Variants []Variant
	Plain    Kind                  // the kind of its plain iptables; "" if there is none
	Legacy   subnet.Pair[[]string] // the legacy tables in use in this network namespace

	missing error
}

// bases are the beginnings of the families' command names.
var bases = subnet.Pair[string]{"iptables", "ip6tables"}

// Found returns what a host has. It creates no legacy table, as a request for one by
// its name would.
func Found(ctx context.Context, o Options) (h Installed, err error) {
	for _, f := range subnet.Families {
		if h.Legacy[f], err = o.legacy(f); err != nil {
			return Installed{}, err
		}
	}
	var missing []error
	for _, k := range []Kind{NFT, Legacy} {
		v := Variant{Kind: k}
		for _, f := range subnet.Families {
			if err := o.find(ctx, &v, f, bases[f]+"-"+string(k)); err != nil {
				missing = append(missing, err)
			}
		}
		h.add(v)
	}
	plain := Variant{}
	for _, f := range subnet.Families {
		if err := o.find(ctx, &plain, f, bases[f]); err != nil {
			missing = append(missing, err)
		}
	}
	if h.Plain = plain.Kind; !h.has(plain.Kind) {
		h.add(plain)
	}
	if h.missing = errors.Join(missing...); ctx.Err() != nil {
		return Installed{}, context.Cause(ctx)
	}
	for i := range h.Variants {
		o.count(ctx, &h.Variants[i], h.Legacy)
	}
	return h, nil
}

func (h *Installed) add(v Variant) {
	if v.save != (subnet.Pair[string]{}) {
		h.Variants = append(h.Variants, v)
	}
}

func (h *Installed) has(k Kind) bool {
	_, ok := h.Variant(k)
	return ok
}

// Variant returns the variant of that kind, if the host has it.
func (h Installed) Variant(k Kind) (Variant, bool) {
	for _, v := range h.Variants {
		if v.Kind == k {
			return v, true
		}
	}
	return Variant{}, false
}

// find adds the commands of a family to v. The first one's version shows its kind.
func (o Options) find(ctx context.Context, v *Variant, f subnet.Family, base string) error {
	version, kind, err := o.version(ctx, base+"-save")
	if err != nil { // an old one that has no rules to write prints nothing
		var older error
		if version, kind, older = o.version(ctx, base); older != nil || !version.before(Version{1, 8, 0}) {
			return err
		}
	}
	if v.save == (subnet.Pair[string]{}) {
		v.Version = version
		if v.Kind == "" {
			v.Kind = kind
		}
	}
	if kind != v.Kind {
		return fmt.Errorf("%s-save is of %s iptables, not of %s", base, kind, v.Kind)
	}
	v.save[f], v.restore[f] = base+"-save", base+"-restore"
	return nil
}

// count counts the foreign rules in a variant. Without a table's name, a legacy
// command shows the tables in use.
func (o Options) count(ctx context.Context, v *Variant, legacy subnet.Pair[[]string]) {
	for _, f := range subnet.Families {
		if v.save[f] == "" || v.Kind == Legacy && len(legacy[f]) == 0 {
			continue
		}
		err := o.run(ctx, "", func(r io.Reader) error {
			tables, err := parse(r, func(chain, spec string) bool {
				if !passing(chain, spec) {
					v.Rules++
				}
				return false
			})
			for _, t := range tables {
				for chain := range t.chains {
					v.Kube = v.Kube || strings.HasPrefix(chain, "KUBE-")
				}
			}
			return err
		}, v.save[f])
		if err != nil {
			v.Err = errors.Join(v.Err, fmt.Errorf("list the rules of %s iptables: %w", v.Kind, err))
		}
	}
}

// passing returns rules of ours or flannel's, which do not count.
func passing(chain, spec string) bool {
	for _, ours := range []string{"TULLE-", "FLANNEL-"} {
		if strings.HasPrefix(chain, ours) || strings.Contains(spec, "-j "+ours) {
			return true
		}
	}
	return false
}

// Choose returns which variant to use, and why: the one that other programs on this
// host use, or else the kind of its plain iptables.
func (h Installed) Choose() (v Variant, why string, err error) {
	var usable []Variant
	for _, v := range h.Variants {
		if err = errors.Join(err, v.Err); v.Err == nil {
			usable = append(usable, v)
		}
	}
	switch len(usable) {
	case 0:
		if err == nil {
			err = fmt.Errorf("no iptables on this host; install the package iptables: %w", h.missing)
		}
		return Variant{}, "", err
	case 1:
		if err != nil {
			return usable[0], fmt.Sprintf("the other cannot be used: %v", err), nil
		}
		return usable[0], "the host has no other", nil
	}
	a, b := usable[0], usable[1]
	if a.Kube == b.Kube && a.Rules == b.Rules {
		if b.Kind == h.Plain {
			a = b
		}
		return a, "the command iptables is of this kind, and neither kind has more rules", nil
	}
	if b.Kube && !a.Kube || a.Kube == b.Kube && b.Rules > a.Rules {
		a, b = b, a
	}
	if a.Kube != b.Kube {
		return a, "kubelet or kube-proxy has its chains there", nil
	}
	return a, fmt.Sprintf("other programs have %d rules there and %d in the %s tables", a.Rules, b.Rules, b.Kind), nil
}

// legacy returns the legacy tables of a family that are in use.
func (o Options) legacy(f subnet.Family) ([]string, error) {
	text, err := os.ReadFile(o.list(f))
	if errors.Is(err, fs.ErrNotExist) { // the kernel has none, or its module was not loaded
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the legacy iptables tables in use: %w; run as root", err)
	}
	return strings.Fields(string(text)), nil
}

// list returns the path where the kernel lists the legacy tables of a family that are
// in use.
func (o Options) list(f subnet.Family) string {
	folder := o.Proc
	if folder == "" {
		folder = "/proc/net"
	}
	return folder + subnet.Pair[string]{"/ip_tables_names", "/ip6_tables_names"}[f]
}
