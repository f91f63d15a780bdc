package subnet

import (
	"net/netip"
	"testing"
	"time"
)

func TestIdentityPrefersIDThenAddress(t *testing.T) {
	for want, a := range map[string]Attrs{
		"8f3c":        {Node: Node{ID: "8f3c", Name: "node-7"}, PublicIP: addresses("192.0.2.7")},
		"192.0.2.7":   {Node: Node{Name: "node-7"}, PublicIP: addresses("192.0.2.7", "2001:db8::7")},
		"2001:db8::7": {PublicIP: addresses("2001:db8::7")},
		"node-7":      {Node: Node{Name: "node-7"}},
	} {
		if got := a.Identity(); got != want {
			t.Errorf("%+v is %q, want %q", a, got, want)
		}
	}
}

func TestClaimOwnsByInstanceAddressOrID(t *testing.T) {
	lasting, until := time.Time{}, time.Unix(1, 0)
	claim := Claim{Attrs: Attrs{PublicIP: addresses("192.0.2.7", "2001:db8::7"), Node: Node{ID: "8f3c"}}}
	flannel := Claim{Attrs: Attrs{PublicIP: addresses("192.0.2.7")}}
	installed := Claim{Attrs: Attrs{PublicIP: addresses("192.0.2.7"), Node: Node{ID: "8f3c", Instance: "a"}}}
	judged := installed
	judged.Judged = map[Pair[netip.Prefix]]bool{subnets("10.5.7.0/24"): true, subnets("10.5.8.0/24"): false}
	of := func(ip, id, instance string) Attrs {
		return Attrs{PublicIP: addresses(ip), Node: Node{ID: id, Instance: instance}}
	}
	for _, c := range []struct {
		name  string
		claim Claim
		lease Lease
		want  bool
	}{
		{"by ID, whatever its address", claim, Lease{Attrs: Attrs{PublicIP: addresses("192.0.2.9"), Node: Node{ID: "8f3c"}}, Expires: until}, true},
		{"another's, at the same address", claim, Lease{Attrs: Attrs{PublicIP: addresses("192.0.2.7"), Node: Node{ID: "77aa"}}, Expires: until}, false},
		{"flannel's, at the same address", claim, Lease{Attrs: Attrs{PublicIP: addresses("192.0.2.7")}, Expires: until}, true},
		{"flannel's, at the same IPv6 address", claim, Lease{Attrs: Attrs{PublicIP: addresses("2001:db8::7")}, Expires: until}, true},
		{"flannel's, at another address", claim, Lease{Attrs: Attrs{PublicIP: addresses("192.0.2.9")}, Expires: until}, false},
		{"of no address", claim, Lease{Expires: until}, false},
		{"a reservation for the address", claim, Lease{Attrs: Attrs{PublicIP: addresses("192.0.2.7")}, Expires: lasting}, true},
		{"a reservation for the address, from the machine before", claim, Lease{Attrs: Attrs{PublicIP: addresses("192.0.2.7"), Node: Node{ID: "77aa"}}, Expires: lasting}, true},
		{"a reservation for another", claim, Lease{Attrs: Attrs{PublicIP: addresses("192.0.2.9"), Node: Node{ID: "77aa"}}, Expires: lasting}, false},
		{"of the installation, whatever its address and ID", installed, Lease{Attrs: of("192.0.2.9", "77aa", "a"), Expires: until}, true},
		{"of another installation with the ID", installed, Lease{Attrs: of("192.0.2.9", "8f3c", "b"), Expires: until}, false},
		{"of an older tulled with the ID", installed, Lease{Attrs: of("192.0.2.9", "8f3c", ""), Expires: until}, false},
		{"of an older tulled with the ID, at the same address", installed, Lease{Attrs: of("192.0.2.7", "8f3c", ""), Expires: until}, true},
		{"of the installation before, at the same address", installed, Lease{Attrs: of("192.0.2.7", "8f3c", "b"), Expires: until}, true},
		{"of it as a clone, at the same address", installed, Lease{Attrs: of("192.0.2.7", CloneID("8f3c", "0123456789abcdef"), "b"), Expires: until}, true},
		{"flannel's, at the installation's address", installed, Lease{Attrs: of("192.0.2.7", "", ""), Expires: until}, true},
		{"a reservation for the ID and no address", installed, Lease{Attrs: Attrs{Node: Node{ID: "8f3c"}}, Expires: lasting}, true},
		{"a reservation for the ID, used by another", installed, Lease{Attrs: of("192.0.2.9", "8f3c", "b"), Expires: lasting}, false},
		{"judged to be its own", judged, Lease{Subnets: subnets("10.5.7.0/24"), Attrs: of("192.0.2.9", "8f3c", "b"), Expires: until}, true},
		{"judged to be another's", judged, Lease{Subnets: subnets("10.5.8.0/24"), Attrs: of("192.0.2.7", "8f3c", "a"), Expires: until}, false},
		{"without an ID, by address", flannel, Lease{Attrs: Attrs{PublicIP: addresses("192.0.2.7"), Node: Node{ID: "77aa"}}, Expires: until}, true},
	} {
		if got := c.claim.Owns(c.lease); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestClaimOwnPrefersReservationThenWanted(t *testing.T) {
	cfg := config(pool("10.5.0.0/16", 24, "10.5.1.0", "10.5.255.0"))
	lease := func(key string, claim Claim, created int64, lasting bool) Lease {
		s, err := ParseKey(key)
		if err != nil {
			t.Fatal(err)
		}
		l := Lease{Subnets: s, Attrs: claim.Attrs, Created: created}
		if !lasting {
			l.Expires = time.Unix(1, 0)
		}
		return l
	}
	a, b := claimOf("a"), claimOf("b")
	wanting := a
	wanting.Want = subnets("10.5.20.0/24")
	old, young := lease("10.5.30.0-24", a, 1, false), lease("10.5.20.0-24", a, 2, false)
	reserved, others := lease("10.5.40.0-24", a, 3, true), lease("10.5.10.0-24", b, 1, false)
	longer, both := lease("10.5.50.0-25", a, 1, false), lease("10.5.60.0-24&fd00::-64", a, 1, false)
	outside := lease("10.6.1.0-24", a, 1, true)
	for _, c := range []struct {
		name   string
		claim  Claim
		leases []Lease
		use    string
		stale  []string
	}{
		{"nothing", a, nil, "", nil},
		{"another's alone", a, []Lease{others}, "", nil},
		{"its own", a, []Lease{others, young}, "10.5.20.0-24", nil},
		{"the older", a, []Lease{young, old}, "10.5.30.0-24", []string{"10.5.20.0-24"}},
		{"the one it wants", wanting, []Lease{old, young}, "10.5.20.0-24", []string{"10.5.30.0-24"}},
		{"its reservation", wanting, []Lease{old, young, reserved}, "10.5.40.0-24", []string{"10.5.30.0-24", "10.5.20.0-24"}},
		{"what the config no longer allows", a, []Lease{longer, both, outside}, "", []string{"10.5.50.0-25", "10.5.60.0-24&fd00::-64"}},
	} {
		use, ok, stale := c.claim.Own(cfg, c.leases)
		var keys []string
		for _, l := range stale {
			keys = append(keys, l.Key())
		}
		if use.Key() != c.use || ok != (c.use != "") || len(keys) != len(c.stale) {
			t.Errorf("%s: uses %q, stale %v", c.name, use.Key(), keys)
			continue
		}
		for i := range keys {
			if keys[i] != c.stale[i] {
				t.Errorf("%s: stale %v", c.name, keys)
			}
		}
	}
}
