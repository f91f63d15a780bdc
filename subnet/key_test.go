package subnet

import (
	"errors"
	"net/netip"
	"testing"
)

// subnets parses subnets of either family.
func subnets(prefixes ...string) Pair[netip.Prefix] {
	var s Pair[netip.Prefix]
	for _, text := range prefixes {
		p := netip.MustParsePrefix(text)
		s[FamilyOf(p.Addr())] = p
	}
	return s
}

func TestKeyRoundTrip(t *testing.T) {
	for key, want := range map[string]Pair[netip.Prefix]{
		"10.5.34.0-24":                       subnets("10.5.34.0/24"),
		"10.5.34.0-24&fd00:5:0:22::-64":      subnets("10.5.34.0/24", "fd00:5:0:22::/64"),
		"fd00:5:0:22::-64":                   subnets("fd00:5:0:22::/64"),
		"10.5.34.4-30":                       subnets("10.5.34.4/30"),
		"0.0.0.0-0":                          subnets("0.0.0.0/0"),
		"fd00:5::fffc-126":                   subnets("fd00:5::fffc/126"),
		"10.12.13.0-24&fd00:12:13::-56":      subnets("10.12.13.0/24", "fd00:12:13::/56"),
		"10.12.13.1-32&2001:db8:1:2:3::-128": subnets("10.12.13.1/32", "2001:db8:1:2:3::/128"),
	} {
		got, err := ParseKey(key)
		if err != nil || got != want {
			t.Errorf("ParseKey(%q) = %v, %v", key, got, err)
		}
		if written := (Lease{Subnets: want}).Key(); written != key {
			t.Errorf("Key of %v = %q, want %q", want, written, key)
		}
	}
	if key := (Lease{}).Key(); key != "" {
		t.Errorf("a lease of nothing has the key %q", key)
	}
}

func TestParseKeyRefuses(t *testing.T) {
	for _, key := range []string{
		"", "&", "-", "10", "config",
		"10.12.13.0", "10.12.13-24", "10.12.13.300-24", "10.12.13.0-24hi", "10.12.13.0/24",
		"10.12.13.0-", "10.12.13.0-33", "10.12.13.0--1", "10.12.13.0-+24", "10.12.13.0-024", "10.12.13.0-24-24",
		"010.12.13.0-24", "10.12.13.7-24", " 10.12.13.0-24", "10.12.13.0-24\n", "10.12.13.0-99999999999999999999",
		"10.12.13.0-24&", "&fd00::-64", "10.12.13.0-24&:12:13:-56", "10.12.13.0-24&20011::-56", "10.12.13.0-24&2001-56",
		"10.12.13.0-24&2001::", "10.12.13.0-24&2001::-56hi", "10.12.13.0-24&10.12.14.0-24", "fd00::-64&fd01::-64",
		"fd00:5:0:22::-64&10.5.34.0-24", "10.5.34.0-24&fd00:5:0:22::-64&fd00:5:0:23::-64",
		"FD00::-64", "fd00:0::-64", "fd00::1-64", "fd00::-129", "fd00::%eth0-64", "fd00::%-64",
		"::ffff:10.5.34.0-120", "::ffff:10.5.34.0-24", "prefix/10.5.34.0-24",
	} {
		got, err := ParseKey(key)
		var bad *LeaseError
		if !errors.As(err, &bad) || bad.Key != key || !errors.Is(err, ErrKey) || got != (Pair[netip.Prefix]{}) {
			t.Errorf("ParseKey(%q) = %v, %v", key, got, err)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	for _, key := range []string{"10.5.34.0-24", "10.5.34.0-24&fd00:5:0:22::-64", "fd00:5:0:22::-64", "::ffff:1.2.3.4-128", "0.0.0.0-0"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		got, err := ParseKey(key)
		if err != nil {
			if !errors.Is(err, ErrKey) {
				t.Fatalf("%#v", err)
			}
			return
		}
		if written := FormatKey(got); written != key {
			t.Fatalf("%q came back as %q", key, written)
		}
		for family, s := range got {
			if s.IsValid() && (s != s.Masked() || FamilyOf(s.Addr()) != Family(family)) {
				t.Fatalf("%q holds %v as %v", key, s, Family(family))
			}
		}
	})
}
