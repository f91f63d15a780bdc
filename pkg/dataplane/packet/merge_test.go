package packet

import (
	"bytes"
	"slices"
	"testing"
)

// flow returns n packets that follow each other, the last with a shorter payload.
func flow(s spec, n, last int) (all [][]byte) {
	payload := s.payload
	for i := range n {
		if i == n-1 {
			s.payload = last
		}
		all = append(all, s.packet())
		s.sequence += uint32(s.payload)
		s.id++
		s.payload = payload
	}
	return all
}

// TestMergedPacketIsSplitIntoTheSame follows flows of each kind through Merger and
// Splitter.
func TestMergedPacketIsSplitIntoTheSame(t *testing.T) {
	for name, packets := range map[string][][]byte{
		"TCP":                      flow(spec{payload: 1400, sequence: 1<<32 - 3000}, 40, 1400),
		"TCP with a short end":     flow(spec{payload: 1400}, 40, 3),
		"TCP over IPv6":            flow(spec{v6: true, payload: 1400}, 40, 1),
		"UDP":                      flow(spec{udp: true, payload: 33}, 64, 33),
		"UDP with a short end":     flow(spec{udp: true, payload: 33}, 64, 2),
		"UDP over IPv6":            flow(spec{udp: true, v6: true, payload: 33}, 2, 33),
		"two, the larger is first": flow(spec{payload: 1400}, 2, 1399),
	} {
		got := merge(t, true, packets...)
		if len(got) != 1 {
			t.Errorf("%s: %d packets", name, len(got))
			continue
		}
		again := split(got[0].p, got[0].v)
		if !slices.EqualFunc(again, packets, bytes.Equal) {
			t.Errorf("%s: %d packets became %d others", name, len(packets), len(again))
		}
	}
}

// TestWhatDoesNotBelongTogetherIsNotMerged changes the second of two packets.
func TestWhatDoesNotBelongTogetherIsNotMerged(t *testing.T) {
	base := spec{payload: 1000}
	next := spec{payload: 1000, sequence: 1000, id: 1}
	change := func(f func(s *spec)) []byte {
		s := next
		f(&s)
		return s.packet()
	}
	patch := func(at int, to byte) []byte {
		p := next.packet()
		p[at] = to
		ip, _ := Parse(p)
		ip.fixHeader(p)
		return p
	}
	if got := merge(t, true, base.packet(), next.packet()); len(got) != 1 {
		t.Fatalf("unchanged, they are %d packets", len(got))
	}
	for name, second := range map[string][]byte{
		"another port":           change(func(s *spec) { s.port = 7 }),
		"a gap":                  change(func(s *spec) { s.sequence = 1001 }),
		"the same once more":     base.packet(),
		"a larger payload":       change(func(s *spec) { s.payload = 1001 }),
		"no payload":             change(func(s *spec) { s.payload = 0 }),
		"fin":                    change(func(s *spec) { s.flags = fin }),
		"syn":                    change(func(s *spec) { s.flags = syn }),
		"rst":                    change(func(s *spec) { s.flags = rst }),
		"another class":          patch(1, 3),
		"another time to live":   patch(8, 63),
		"a fragment":             patch(6, 0x20),
		"no don't-fragment":      patch(6, 0),
		"another host":           patch(15, 9),
		"a wrong IP checksum":    func() []byte { p := next.packet(); p[10]++; return p }(),
		"a wrong TCP checksum":   func() []byte { p := next.packet(); p[100]++; return p }(),
		"another window":         func() []byte { p := next.packet(); p[header4+14]++; return p }(),
		"another option":         func() []byte { p := next.packet(); p[header4+25]++; return p }(),
		"another acknowledgment": func() []byte { p := next.packet(); p[header4+9]++; return p }(),
		"another protocol":       spec{udp: true, payload: 1000}.packet(),
		"IPv6":                   spec{v6: true, payload: 1000, sequence: 1000}.packet(),
	} {
		first := base.packet()
		got := merge(t, true, first, second)
		if len(got) != 2 || !bytes.Equal(got[0].p, first) || !bytes.Equal(got[1].p, second) || got[0].v != (VNet{}) || got[1].v != (VNet{}) {
			t.Errorf("%s: %d packets", name, len(got))
		}
	}
	wrong := base.packet()
	wrong[200]++
	if got := merge(t, true, wrong, next.packet()); len(got) != 2 || !bytes.Equal(got[0].p, wrong) {
		t.Error("the first packet is wrong, and was merged")
	}
	if got := merge(t, false, flow(spec{udp: true, payload: 5}, 2, 5)...); len(got) != 2 {
		t.Error("UDP is merged for a device that cannot split it")
	}
	pushed := base
	pushed.flags = psh
	if got := merge(t, true, pushed.packet(), next.packet()); len(got) != 2 {
		t.Error("something was merged after PSH")
	}
	unchecked := flow(spec{udp: true, payload: 5}, 2, 5)
	for _, p := range unchecked {
		put(p[header4+6:], 0)
	}
	if got := merge(t, true, unchecked...); len(got) != 2 {
		t.Error("UDP without checksums is merged")
	}
}

// TestMergedPacketsHaveLimits: of size and of number.
func TestMergedPacketsHaveLimits(t *testing.T) {
	for _, c := range []struct{ n, payload, want int }{{64, 10, 1}, {65, 10, 2}, {46, 1400, 1}, {47, 1400, 2}} {
		got := merge(t, true, flow(spec{payload: c.payload}, c.n, c.payload)...)
		if len(got) != c.want {
			t.Errorf("%d packets of %d become %d", c.n, c.payload, len(got))
		}
		for _, o := range got {
			if len(o.p) > maxPacket {
				t.Errorf("a packet has %d bytes", len(o.p))
			}
		}
	}
}

// TestPushEndsAMergedPacket: the flag stays, on the last of those that it is split into.
func TestPushEndsAMergedPacket(t *testing.T) {
	packets := flow(spec{payload: 100}, 4, 100)
	third := spec{payload: 100, sequence: 200, id: 2, flags: psh}
	packets[2] = third.packet()
	got := merge(t, true, packets...)
	if len(got) != 2 || !slices.EqualFunc(split(got[0].p, got[0].v), packets[:3], bytes.Equal) || !bytes.Equal(got[1].p, packets[3]) {
		t.Errorf("%d packets", len(got))
	}
}

// FuzzMerge merges whatever comes. Split again, it is what came.
func FuzzMerge(f *testing.F) {
	join := func(packets ...[]byte) []byte { return slices.Concat(packets...) }
	f.Add(join(flow(spec{payload: 5}, 3, 2)...))
	f.Add(join(flow(spec{v6: true, udp: true, payload: 5}, 3, 2)...))
	f.Add(join(flow(spec{udp: true, payload: 5}, 3, 2)...))
	f.Add([]byte{0x45})
	f.Fuzz(func(t *testing.T, b []byte) {
		var packets [][]byte
		for len(b) >= 4 {
			length := int(b[2])<<8 | int(b[3])
			if b[0]>>4 == 6 && len(b) > 6 {
				length = int(b[4])<<8 | int(b[5]) + header6
			}
			length = min(max(length, 1), len(b))
			if _, ok := Parse(b[:length]); ok {
				packets = append(packets, b[:length])
			}
			b = b[length:]
		}
		var got [][]byte
		for _, o := range merge(t, true, packets...) {
			if o.v == (VNet{}) {
				got = append(got, o.p)
				continue
			}
			parts := split(o.p, o.v)
			if len(parts) < 2 {
				t.Fatalf("%+v splits into %d", o.v, len(parts))
			}
			got = append(got, parts...)
		}
		if len(got) != len(packets) {
			t.Fatalf("%d packets became %d", len(packets), len(got))
		}
		for i, p := range packets {
			want, have := bytes.Clone(p), got[i]
			if ip, _ := Parse(want); !ip.V6 && want[6]&0x40 != 0 {
				copy(have[4:6], want[4:6]) // with don't-fragment, it means nothing
				copy(have[10:12], want[10:12])
			}
			if !bytes.Equal(have, want) {
				t.Fatalf("packet %d is\n%x\nnot\n%x", i, have, want)
			}
		}
	})
}
