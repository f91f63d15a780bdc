package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/subnet"
)

func TestPoolsThatCannotWorkAreRefused(t *testing.T) {
	draining := func(text string) Pool {
		p := pool4("a", 24, "10.0.0.0/16")
		p.Draining = prefixes(text)
		return p
	}
	selecting := func(field bool, r Requirement) Pool {
		p := pool4("a", 24, "10.0.0.0/16")
		p.Selector = &Selector{[]Term{{Labels: []Requirement{r}}}}
		if field {
			p.Selector.Terms[0] = Term{Fields: []Requirement{r}}
		}
		return p
	}
	for want, p := range map[string]Pool{
		`pool "": no name; give it one`:                                                                            pool4("", 24, "10.0.0.0/16"),
		`pool "a": no range; add one like 10.244.0.0/16`:                                                           {Name: "a"},
		`pool "a": range 10.0.1.0/16: has host bits; write 10.0.0.0/16`:                                            pool4("a", 24, "10.0.1.0/16"),
		`pool "a": range fd00::/48: not an IPv4 range`:                                                             pool4("a", 64, "fd00::/48"),
		`pool "a": range 10.0.0.0/8: not an IPv6 range`:                                                            Pool{Name: "a"}.with6(24, "10.0.0.0/8"),
		`pool "a": range ::ffff:10.0.0.0/112: IPv4 written as IPv6; write it as IPv4`:                              Pool{Name: "a"}.with6(120, "::ffff:10.0.0.0/112"),
		`pool "a": range 0.0.0.0/0: holds every address; use a smaller one`:                                        pool4("a", 24, "0.0.0.0/0"),
		`pool "a": range 10.0.0.0/24: its blocks cannot be /23; use a length from 24 to 32`:                        pool4("a", 23, "10.0.0.0/24"),
		`pool "a": range 10.0.0.0/24: its blocks cannot be /33; use a length from 24 to 32`:                        pool4("a", 33, "10.0.0.0/24"),
		`pool "a": range 10.0.0.0/24: its blocks cannot be /0; use a length from 24 to 32`:                         pool4("a", 0, "10.0.0.0/24"),
		`pool "a": range fd00::/8: its blocks cannot be /129; use a length from 8 to 56`:                           Pool{Name: "a"}.with6(129, "fd00::/8"),
		`pool "a": range fd00::/8: has 2^56 blocks of /64, the limit is 2^48; use a smaller range or /56`:          Pool{Name: "a"}.with6(64, "fd00::/8"),
		`pool "a": range ::/8: holds the IPv4-mapped addresses; use one like fd00:5::/48`:                          Pool{Name: "a"}.with6(48, "::/8"),
		`pool "a": range without a value; write one like 10.244.0.0/16`:                                            {Name: "a", Ranges: subnet.Pair[[]netip.Prefix]{{{}}}},
		`pool "a": range 10.0.0.1/24: has host bits; write 10.0.0.0/24`:                                            draining("10.0.0.1/24"),
		`pool "a": node selector: label "k": In has no value; add one`:                                             selecting(false, Requirement{"k", "In", nil}),
		`pool "a": node selector: label "k": NotIn has no value; add one`:                                          selecting(false, Requirement{"k", "NotIn", nil}),
		`pool "a": node selector: label "k": Exists has 1 values; remove them`:                                     selecting(false, Requirement{"k", "Exists", []string{"v"}}),
		`pool "a": node selector: label "k": Gt has 2 values; give it one`:                                         selecting(false, Requirement{"k", "Gt", []string{"1", "2"}}),
		`pool "a": node selector: label "k": Lt "x": not a whole number`:                                           selecting(false, Requirement{"k", "Lt", []string{"x"}}),
		`pool "a": node selector: label "k": unknown operator "in"; use In, NotIn, Exists, DoesNotExist, Gt or Lt`: selecting(false, Requirement{"k", "in", []string{"v"}}),
		`pool "a": node selector: field "k": a field must be metadata.name`:                                        selecting(true, Requirement{"k", "In", []string{"v"}}),
		`pool "a": node selector: field metadata.name: "Exists" with 0 values; use In or NotIn with one value`:     selecting(true, Requirement{"metadata.name", "Exists", nil}),
		`pool "a": node selector: field metadata.name: "In" with 2 values; use In or NotIn with one value`:         selecting(true, Requirement{"metadata.name", "In", []string{"v", "w"}}),
	} {
		if err := p.Check(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, p := range []Pool{
		pool4("a", 24, "10.0.0.0/16", "10.0.0.0/16", "10.0.0.0/8"), pool4("a", 16, "10.0.0.0/16"), pool4("a", 32, "128.0.0.0/1"),
		Pool{Name: "a"}.with6(64, "fd00::/16"), Pool{Name: "a"}.with6(128, "fd00::/80"), draining("fd00::/112"), draining("0.0.0.0/0"),
	} {
		if err := p.Check(); err != nil {
			t.Error(err)
		}
	}
}

func TestRangesWithoutServicesHoldWholeBlocks(t *testing.T) {
	for _, c := range []struct{ ranges, taken, want string }{
		{"10.0.0.0/16", "", "10.0.0.0/16"},
		{"10.0.0.0/16", "10.1.0.0/16 fd00::/8", "10.0.0.0/16"},
		{"10.0.0.0/16", "10.0.0.0/8", ""},
		{"10.0.0.0/16", "10.0.0.0/17", "10.0.128.0/17"},
		{"10.0.0.0/22", "10.0.1.128/28 10.0.1.64/32", "10.0.0.0/24 10.0.2.0/23"},
		{"10.0.0.0/22 10.9.0.0/23", "10.0.0.0/23 10.9.1.0/24", "10.0.2.0/23 10.9.0.0/24"},
	} {
		got := fmt.Sprint(without(prefixes(strings.Fields(c.ranges)...), prefixes(strings.Fields(c.taken)...), 24))
		if want := fmt.Sprint(prefixes(strings.Fields(c.want)...)); got != want {
			t.Errorf("%s without %s: %s, want %s", c.ranges, c.taken, got, want)
		}
	}
}

// TestPoolsInOrderOfPreference checks each rule with pools that the earlier rules do not
// distinguish.
func TestPoolsInOrderOfPreference(t *testing.T) {
	labels := map[string]string{"a": "", "b": "", "c": ""}
	either := pool4("either", 24, "10.0.0.0/24").labelled("x")
	either.Selector.Terms = append(either.Selector.Terms, Term{Labels: []Requirement{{Key: "a", Operator: "Exists"}, {Key: "b", Operator: "Exists"}, {Key: "c", Operator: "Exists"}}})
	for _, want := range [][]Pool{
		{pool4("2", 24, "10.0.0.0/16").labelled("a", "b"), pool4("1", 24, "10.0.0.0/20").labelled("a"), pool4("0", 24, "10.0.0.0/24")},
		{either, pool4("2", 24, "10.0.0.0/24").labelled("a", "b")},
		{pool4("z", 24, "10.0.0.0/20").labelled("a"), pool4("a", 24, "10.0.0.0/16").labelled("a")},
		{pool4("z", 24, "10.0.0.0/8").with6(64, "fd00::/62").labelled("a"), pool4("a", 24, "10.0.0.0/21").labelled("a")},
		{pool4("z", 28, "10.0.0.0/20").labelled("a"), pool4("a", 24, "10.0.0.0/16").labelled("a")},
		{pool4("z", 24, "10.0.0.0/16").labelled("a"), pool4("a", 24, "10.0.0.0/16").labelled("b")},
		{pool4("z", 24, "10.0.0.0/16").labelled("a"), pool4("a", 24, "10.1.0.0/16").labelled("a")},
		{pool4("a", 24, "10.0.0.0/16").labelled("a"), pool4("z", 24, "10.0.0.0/16").labelled("a")},
		{Pool{Name: "z"}.with6(64, "fd00::/56").labelled("a"), Pool{Name: "a"}.with6(64, "fd01::/56").labelled("a")},
	} {
		var names, got []string
		for _, p := range want {
			names = append(names, p.Name)
		}
		slices.Reverse(want)
		b := bookOf(t, want...)
		for _, p := range b.poolsFor(&node{labels: labels}) {
			got = append(got, p.Name)
		}
		expect(t, got, names...)
	}
}

func TestExhaustedPoolFallsToTheNext(t *testing.T) {
	b := bookOf(t, pool4("small", 24, "10.0.0.0/24").labelled("a"), pool4("all", 24, "10.1.0.0/24"))
	for i := range 3 {
		b.Set(Node{Name: fmt.Sprint("n", i), UID: "1", Created: int64(i), Labels: map[string]string{"a": ""}}, start)
	}
	expect(t, next(b, start), "n0 10.0.0.0/24", "n1 10.1.0.0/24")
	for f := range b.Findings() {
		if f.Node != "n2" || f.Pool != "small" || !strings.Contains(f.Text, "; the other pools that select the Node (1) have none either; ") {
			t.Errorf("%+v", f)
		}
	}
}

func TestSelectorSelectsLikeKubernetes(t *testing.T) {
	labels := map[string]string{"zone": "a", "cores": "8", "odd": "x1", "empty": ""}
	req := func(key, operator string, values ...string) Requirement { return Requirement{key, operator, values} }
	term := func(labels ...Requirement) Term { return Term{Labels: labels} }
	for _, c := range []struct {
		name  string
		terms []Term
		want  int // requirements met; -1 if the Node is not selected
	}{
		{"no term", nil, -1},
		{"a term without requirements", []Term{{}}, -1},
		{"In", []Term{term(req("zone", "In", "b", "a"))}, 1},
		{"In another", []Term{term(req("zone", "In", "b"))}, -1},
		{"In, absent", []Term{term(req("none", "In", ""))}, -1},
		{"NotIn", []Term{term(req("zone", "NotIn", "b"))}, 1},
		{"NotIn it", []Term{term(req("zone", "NotIn", "a"))}, -1},
		{"NotIn, absent", []Term{term(req("none", "NotIn", "a"))}, 1},
		{"Exists", []Term{term(req("empty", "Exists"))}, 1},
		{"Exists, absent", []Term{term(req("none", "Exists"))}, -1},
		{"DoesNotExist", []Term{term(req("none", "DoesNotExist"))}, 1},
		{"DoesNotExist, present", []Term{term(req("empty", "DoesNotExist"))}, -1},
		{"Gt", []Term{term(req("cores", "Gt", "7"))}, 1},
		{"Gt, equal", []Term{term(req("cores", "Gt", "8"))}, -1},
		{"Lt", []Term{term(req("cores", "Lt", "9"))}, 1},
		{"Lt, equal", []Term{term(req("cores", "Lt", "8"))}, -1},
		{"Gt, no number", []Term{term(req("odd", "Gt", "0"))}, -1},
		{"Lt, absent", []Term{term(req("none", "Lt", "1"))}, -1},
		{"all of a term", []Term{term(req("zone", "Exists"), req("cores", "Lt", "1"))}, -1},
		{"one of the terms", []Term{term(req("none", "Exists")), term(req("zone", "Exists"))}, 1},
		{"two of the terms", []Term{term(req("zone", "Exists")), term(req("none", "Exists")), term(req("cores", "Exists"), req("empty", "Exists"))}, 3},
		{"a field", []Term{{Fields: []Requirement{req("metadata.name", "In", "node")}}}, 1},
		{"another field", []Term{{Fields: []Requirement{req("metadata.name", "NotIn", "node")}}}, -1},
		{"a field and a label", []Term{{Fields: []Requirement{req("metadata.name", "NotIn", "x")}, Labels: []Requirement{req("zone", "Exists")}}}, 2},
		{"a field, not the label", []Term{{Fields: []Requirement{req("metadata.name", "In", "node")}, Labels: []Requirement{req("none", "Exists")}}}, -1},
	} {
		s := &Selector{c.terms}
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if n, ok := s.match("node", labels); ok != (c.want >= 0) || ok && n != c.want {
			t.Errorf("%s: %d, %v, want %d", c.name, n, ok, c.want)
		}
	}
}

func TestSelectorTextDoesNotDependOnOrder(t *testing.T) {
	a, b, c := Requirement{"a", "In", []string{"2", "1"}}, Requirement{"b", "DoesNotExist", nil}, Requirement{"c", "Gt", []string{"3"}}
	x := Selector{[]Term{{Labels: []Requirement{a, b}}, {Labels: []Requirement{c}, Fields: []Requirement{{nameField, "In", []string{"n"}}}}}}
	y := Selector{[]Term{{Labels: []Requirement{c}, Fields: []Requirement{{nameField, "In", []string{"n"}}}}, {Labels: []Requirement{b, a}}}}
	if want := "!b,a in (1,2) or c>3,metadata.name in (n)"; x.text() != want || y.text() != want {
		t.Errorf("%q and %q, want %q", x.text(), y.text(), want)
	}
	for _, r := range []Requirement{{"k", "NotIn", []string{"v"}}, {"k", "Exists", nil}, {"k", "Lt", []string{"7"}}} {
		if r.text() != map[string]string{"NotIn": "k notin (v)", "Exists": "k", "Lt": "k<7"}[r.Operator] {
			t.Error(r.text())
		}
	}
}
