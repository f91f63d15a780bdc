package packet

import (
	"bytes"
	"net/netip"
	"testing"
)

// TestSplitRefuses packets that a kernel would not hand over.
func TestSplitRefuses(t *testing.T) {
	p := spec{payload: 3000}.packet()
	good := VNet{NeedsChecksum: true, Kind: TCP4, SegmentSize: 1400, ChecksumStart: header4, ChecksumAt: 16}
	if got := split(p, good); len(got) != 3 {
		t.Fatalf("it is split into %d", len(got))
	}
	for name, change := range map[string]func(p []byte, v *VNet){
		"no size":                     func(_ []byte, v *VNet) { v.SegmentSize = 0 },
		"no kind":                     func(_ []byte, v *VNet) { v.Kind = Whole },
		"another kind":                func(_ []byte, v *VNet) { v.Kind = 3 },
		"the other family":            func(_ []byte, v *VNet) { v.Kind = TCP6 },
		"UDP":                         func(_ []byte, v *VNet) { v.Kind = UDP },
		"a start before the header":   func(_ []byte, v *VNet) { v.ChecksumStart = 19 },
		"a start behind the header":   func(_ []byte, v *VNet) { v.ChecksumStart = 24 },
		"a start behind the end":      func(_ []byte, v *VNet) { v.ChecksumStart = 65535 },
		"a fragment":                  func(p []byte, _ *VNet) { p[6] |= 0x20 },
		"a short TCP header":          func(p []byte, _ *VNet) { p[header4+12] = 4 << 4 },
		"another length than it says": func(p []byte, _ *VNet) { p[3]++ },
		"another version":             func(p []byte, _ *VNet) { p[0] = 0x55 },
	} {
		q, v := bytes.Clone(p), good
		change(q, &v)
		if got := split(q, v); got != nil {
			t.Errorf("%s: split into %d", name, len(got))
		}
	}
	ip, _ := Parse(p)
	for size := range p {
		var s Splitter
		if whole := s.BeginAt(p[:size], len(p), ip, good); whole != (size >= header4+32) || s.More() != whole {
			t.Errorf("the first %d bytes are enough: %t; more: %t", size, whole, s.More())
		}
	}
	bare := spec{}.packet()
	if got := split(bare, good); got != nil {
		t.Errorf("no payload: split into %d", len(got))
	}
}

// TestChecksumIsCompleted where the kernel left it out.
func TestChecksumIsCompleted(t *testing.T) {
	for _, s := range []spec{{payload: 101}, {udp: true, payload: 64}, {v6: true, payload: 7}, {v6: true, udp: true}} {
		want := s.packet()
		ip, _ := Parse(want)
		v := VNet{NeedsChecksum: true, ChecksumStart: uint16(ip.Length), ChecksumAt: 16}
		if s.udp {
			v.ChecksumAt = 6
		}
		p := bytes.Clone(want)
		put(p[int(v.ChecksumStart+v.ChecksumAt):], fold(ip.pseudo(p, len(p)-ip.Length)))
		if !v.Complete(p, ip) || !bytes.Equal(p, want) {
			t.Errorf("%+v: it is\n%x\nnot\n%x", s, p, want)
		}
		for _, start := range []uint16{0, uint16(ip.Length - 1), uint16(len(p)), uint16(len(p) - 1), 65535} {
			v.ChecksumStart = start
			if v.Complete(p, ip) {
				t.Errorf("a checksum from %d of %d bytes is complete", start, len(p))
			}
		}
	}
}

// TestSumIsPlain compares the sum with that of RFC 1071, for each length.
func TestSumIsPlain(t *testing.T) {
	b := make([]byte, 300)
	for i := range b {
		b[i] = byte(255 - i*i)
	}
	for n := range b {
		plain := uint32(0)
		for i := 0; i < n; i++ {
			plain += uint32(b[i]) << (8 * ((i + 1) % 2))
		}
		for plain > 0xffff {
			plain = plain>>16 + plain&0xffff
		}
		if got := fold(sum(b[:n], 0)); got>>8|got<<8 != uint16(plain) {
			t.Errorf("%d bytes: %04x, want %04x", n, got, plain)
		}
	}
}

// TestAge checks the hop limit, and that the IPv4 checksum stays right.
func TestAge(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		p := spec{v6: v6, payload: 1}.packet()
		ip, _ := Parse(p)
		for left := 63; left > 0; left-- {
			if !ip.Age(p) || !right(p, ip) {
				t.Fatalf("with %d hops left, it is wrong: %x", left, p)
			}
		}
		if ip.Age(p) {
			t.Error("it goes on without an end")
		}
		p[7], p[8] = 0, 0
		if ip.Age(p) {
			t.Error("it goes on with no hop left")
		}
	}
}

func TestComplaints(t *testing.T) {
	space := make([]byte, MaxComplaint)
	from4, from6 := netip.MustParseAddr("10.5.1.0"), netip.MustParseAddr("fd00:5:0:1::")
	for name, c := range map[string]struct {
		p    []byte
		from netip.Addr
		why  Complaint
		want []byte // type and code
	}{
		"no route":           {spec{payload: 1400}.packet(), from4, NoRoute, []byte{3, 0}},
		"expired":            {spec{payload: 4}.packet(), from4, Expired, []byte{11, 0}},
		"no route over IPv6": {spec{v6: true, payload: 1400}.packet(), from6, NoRoute, []byte{1, 0}},
		"expired over IPv6":  {spec{v6: true, udp: true}.packet(), from6, Expired, []byte{3, 0}},
		"of another family":  {spec{v6: true}.packet(), from4, NoRoute, nil},
		"about nothing":      {spec{v6: true}.packet(), netip.Addr{}, NoRoute, nil},
		"to a group":         {func() []byte { p := spec{}.packet(); p[16] = 224; return p }(), from4, NoRoute, nil},
		"from nowhere":       {func() []byte { p := spec{}.packet(); clear(p[12:16]); return p }(), from4, NoRoute, nil},
		"a later fragment":   {func() []byte { p := spec{}.packet(); p[7] = 1; return p }(), from4, NoRoute, nil},
		"about an ICMP error": {func() []byte {
			p := spec{}.packet()
			p[9], p[header4] = protocolICMP, 3
			return p
		}(), from4, NoRoute, nil},
		"about an echo request": {func() []byte {
			p := spec{}.packet()
			p[9], p[header4] = protocolICMP, 8
			return p
		}(), from4, NoRoute, []byte{3, 0}},
		"about an ICMPv6 error": {func() []byte {
			p := spec{v6: true}.packet()
			p[6], p[header6] = protocolICMPv6, 1
			return p
		}(), from6, NoRoute, nil},
	} {
		ip, ok := Parse(c.p)
		if !ok {
			t.Fatalf("%s: no packet", name)
		}
		got := ip.Complain(c.why, c.p, c.from, space)
		if c.want == nil {
			if got != nil {
				t.Errorf("%s: %x", name, got)
			}
			continue
		}
		reply, ok := Parse(got)
		if !ok || !bytes.Equal(got[reply.Length:reply.Length+2], c.want) {
			t.Errorf("%s: %x", name, got)
			continue
		}
		icmp := got[reply.Length:]
		total := uint64(0)
		if reply.V6 {
			total = uint64(fold(reply.pseudo(got, len(icmp))))
		}
		if fold(sum(icmp, total)) != 0xffff || !reply.V6 && fold(sum(got[:header4], 0)) != 0xffff || !bytes.HasPrefix(c.p, icmp[8:]) {
			t.Errorf("%s: wrong checksums or quotation: %x", name, got)
		}
		_, to := reply.Addresses(got)
		if sender, _ := ip.Addresses(c.p); to != sender {
			t.Errorf("%s: it goes to %x", name, to)
		}
	}
}

// FuzzSplit reads headers and packets as a kernel or a host could send them.
func FuzzSplit(f *testing.F) {
	var v [VNetSize]byte
	VNet{NeedsChecksum: true, Kind: TCP4, SegmentSize: 3, ChecksumStart: header4, ChecksumAt: 16}.Write(&v)
	f.Add(append(v[:], spec{payload: 10}.packet()...))
	VNet{NeedsChecksum: true, Kind: UDP, SegmentSize: 3, ChecksumStart: header6, ChecksumAt: 6}.Write(&v)
	f.Add(append(v[:], spec{v6: true, udp: true, payload: 10}.packet()...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < VNetSize {
			return
		}
		v, p := ReadVNet((*[VNetSize]byte)(b)), bytes.Clone(b[VNetSize:])
		ip, ok := Parse(p)
		if !ok {
			return
		}
		ip.Addresses(p)
		ip.Complain(NoRoute, p, netip.MustParseAddr("10.5.1.0"), make([]byte, MaxComplaint))
		ip.Complain(Expired, p, netip.MustParseAddr("fd00::1"), make([]byte, MaxComplaint))
		ip.Age(p)
		v.Complete(p, ip)
		total := 0
		for _, part := range split(p, v) {
			h, ok := Parse(part)
			if !ok {
				t.Fatalf("a part is no packet: %x", part)
			}
			if h.Length > len(part) {
				t.Fatal("a part is shorter than its header")
			}
			total += len(part)
		}
		if total > 0 && total < len(p) {
			t.Errorf("%d bytes of %d are left", total, len(p))
		}
	})
}
