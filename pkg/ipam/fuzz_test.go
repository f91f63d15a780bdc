package ipam

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// FuzzCIDR: the Book reserves whatever package net reads as a network, because other programs
// use it. A text without a finding is the network in its canonical form.
func FuzzCIDR(f *testing.F) {
	for _, text := range []string{"10.0.0.0/24", "10.0.0.7/24", "010.0.0.0/24", "10.0.0.0/024", "::ffff:10.0.0.0/120", "::ffff:1.2.3.4/40", "fd00::/64", "fd00::%a/64", "FD00:0::/64", "0.0.0.0/0", "", "/", "10.0.0.0/-1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		block, code, why := readCIDR(text)
		if (code == "") != (why == "") || code == "" && !block.IsValid() {
			t.Fatalf("%q: %v, %q, %q", text, block, code, why)
		}
		if block.IsValid() && (block != block.Masked() || block.Addr().Is4In6() && block.Bits() >= 96 || block.Addr().Zone() != "") {
			t.Fatalf("%q: %v", text, block)
		}
		if code == "" {
			if p, err := netip.ParsePrefix(text); err != nil || p != block {
				t.Fatalf("%q: %v without a finding", text, block)
			}
		}
		if _, network, err := net.ParseCIDR(text); err == nil && !block.IsValid() {
			t.Fatalf("%q is %v, and not reserved", text, network)
		}
	})
}

// FuzzBook gives a Book a Node with any podCIDRs, among others.
func FuzzBook(f *testing.F) {
	f.Add("10.0.0.0/24", "name", "10.0.0.0/16", 24)
	f.Add("10.0.0.9/24 fd00::/64", "other", "fd00::/48", 64)
	f.Add("0.0.0.0/0 ::/0 x", "other", "0.0.0.0/1", 32)
	f.Fuzz(func(t *testing.T, cidrs, name, ranges string, bits int) {
		var p Pool
		for _, text := range strings.Fields(ranges) {
			if r, err := netip.ParsePrefix(text); err == nil {
				family := subnet.FamilyOf(r.Addr())
				p.Name, p.Bits[family] = "a", bits
				p.Ranges[family] = append(p.Ranges[family], r)
			}
		}
		b, err := New([]Pool{p})
		if err != nil {
			return
		}
		now := time.Unix(1, 0)
		b.Set(Node{Name: "other", UID: "1"}, now)
		granted, _ := b.Next(now, 1)
		b.Set(Node{Name: name, UID: "2", CIDRs: strings.Fields(cidrs)}, now)
		more, _ := b.Next(now, 10)
		granted = append(granted, more...)
		for i, g := range granted {
			for _, s := range g.CIDRs {
				family := subnet.FamilyOf(s.Addr())
				if s.Bits() != bits || !slices.ContainsFunc(p.Ranges[family], func(r netip.Prefix) bool { return r.Contains(s.Addr()) }) {
					t.Fatalf("%v is granted from %v", s, p.Ranges)
				}
				if i > 0 && slices.Contains(granted[0].CIDRs, s) {
					t.Fatalf("granted twice: %v", granted)
				}
			}
		}
		for _, u := range b.Usage(now) {
			if u.Used+u.Free+u.Resting+u.Reserved+u.Draining != u.Total {
				t.Fatalf("%+v", u)
			}
		}
		for f := range b.Findings() {
			if f.Text == "" || len(f.Text) > 1000 {
				t.Fatalf("%+v", f)
			}
		}
		b.Delete(name, now)
		b.Delete("other", now)
		now = now.Add(DefaultRest)
		for _, u := range b.Usage(now) {
			if u.Free != u.Total {
				t.Fatalf("all Nodes have gone: %+v", u)
			}
		}
	})
}

// FuzzSelector: a selector that is accepted can be matched with any Node.
func FuzzSelector(f *testing.F) {
	f.Add("a", "In", "b c", "metadata.name", "In", "n", "a", "b")
	f.Add("a", "Gt", "5", "metadata.name", "NotIn", "n", "a", "7")
	f.Add("a", "Lt", "-9223372036854775809", "x", "Exists", "", "a", "7")
	f.Fuzz(func(t *testing.T, key, operator, values, field, fieldOperator, fieldValues, label, value string) {
		r := Requirement{key, operator, strings.Fields(values)}
		s := Selector{[]Term{{Labels: []Requirement{r}}, {Labels: []Requirement{r}, Fields: []Requirement{{field, fieldOperator, strings.Fields(fieldValues)}}}}}
		if s.Check() != nil {
			return
		}
		if n, ok := s.match("n", map[string]string{label: value}); ok != (n > 0) {
			t.Fatalf("%d requirements, %v", n, ok)
		}
		s.text()
	})
}
