package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// sumOf adds up all parts.
func sumOf(l Layout) (sum Part) {
	for _, r := range l.Ranges {
		for _, p := range r.Parts {
			sum.Used, sum.Free, sum.Resting = sum.Used+p.Used, sum.Free+p.Free, sum.Resting+p.Resting
			sum.Reserved, sum.Draining = sum.Reserved+p.Reserved, sum.Draining+p.Draining
		}
	}
	return sum
}

// drawn returns a letter for each part: the state of its blocks, or + for several.
func drawn(l Layout) string {
	var all []string
	for _, r := range l.Ranges {
		text := ""
		for _, p := range r.Parts {
			switch total := p.Total(); total {
			case p.Used:
				text += "u"
			case p.Free:
				text += "."
			case p.Resting:
				text += "r"
			case p.Reserved:
				text += "s"
			case p.Draining:
				text += "d"
			default:
				text += "+"
			}
		}
		all = append(all, r.Range.String()+" "+text)
	}
	return fmt.Sprintf("%d: %s", l.Each, strings.Join(all, ", "))
}

func TestLayoutsShowWhereBlocksLie(t *testing.T) {
	pool := pool4("a", 24, "10.0.0.0/21", "10.9.0.0/23", "10.255.0.0/24")
	pool.Reserved, pool.Draining = prefixes("10.0.6.0/25"), prefixes("10.9.0.0/16")
	b, err := New([]Pool{pool})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_000_000, 0)
	for name, cidr := range map[string]string{"w1": "10.0.0.0/24", "w2": "10.0.1.0/25", "w3": "10.9.1.0/24", "w4": "10.0.3.0/24"} {
		b.Set(Node{Name: name, UID: name, CIDRs: []string{cidr}}, now)
	}
	b.Delete("w4", now)
	for most, want := range map[int]string{
		11: "1: 10.0.0.0/21 uu.r..s., 10.9.0.0/23 du, 10.255.0.0/24 .",
		10: "2: 10.0.0.0/21 u+.+, 10.9.0.0/23 +, 10.255.0.0/24 .",
		3:  "8: 10.0.0.0/21 +, 10.9.0.0/23 +, 10.255.0.0/24 .",
		1:  "8: 10.0.0.0/21 +",
	} {
		l := b.Layouts(now, 1, most)[0]
		if got := drawn(l); got != want || l.Left != 3-len(l.Ranges) {
			t.Errorf("%d: %s, %d left, want %s", most, got, l.Left, want)
		}
	}
}

// TestLayoutsAreLimited: Layouts follows the order of Usage, and computes only as many as the
// caller asks for.
func TestLayoutsAreLimited(t *testing.T) {
	var pools []Pool
	for i := range 100 {
		pools = append(pools, pool4(fmt.Sprintf("pool-%d", i), 24, fmt.Sprintf("10.%d.0.0/16", i)))
	}
	b, err := New(pools)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_000_000, 0)
	usage := b.Usage(now)
	for most, want := range map[int]int{0: 0, 1: 1, 24: 24, 100: 100, 1000: 100} {
		layouts := b.Layouts(now, most, 16)
		if len(layouts) != want {
			t.Errorf("%d layouts, want %d", len(layouts), want)
		}
		for i, l := range layouts {
			if l.Pool != usage[i].Pool || l.Family != usage[i].Family {
				t.Errorf("layout %d is of %s, want %s", i, l.Pool, usage[i].Pool)
			}
		}
	}
	few := testing.AllocsPerRun(10, func() { b.Layouts(now, 2, 16) })
	if all := testing.AllocsPerRun(10, func() { b.Layouts(now, 100, 16) }); few > all/20 {
		t.Errorf("two layouts of 100 take %v allocations, all take %v", few, all)
	}
}

func TestAfterIsTheNextAddress(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.0/24": "10.0.1.0", "10.0.0.128/25": "10.0.1.0", "10.255.255.255/32": "11.0.0.0", "10.240.0.0/12": "11.0.0.0",
		"fd00::/64": "fd00:0:0:1::", "255.0.0.0/8": "invalid IP",
	} {
		if got := after(netip.MustParsePrefix(text)).String(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestWithinClipsRanges(t *testing.T) {
	ranges := prefixes("10.0.0.0/24", "10.0.4.0/22", "10.1.0.0/16")
	for in, want := range map[string][]netip.Prefix{
		"10.0.0.0/16": ranges[:2], "10.1.2.0/24": prefixes("10.1.2.0/24"), "10.0.2.0/24": nil, "10.0.0.0/8": ranges, "10.1.0.0/16": ranges[2:],
	} {
		if got := within(ranges, netip.MustParsePrefix(in)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", in, got, want)
		}
	}
}
