package envfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/subnet"
)

func prefixes(texts ...string) subnet.Pair[netip.Prefix] {
	var p subnet.Pair[netip.Prefix]
	for _, text := range texts {
		prefix := netip.MustParsePrefix(text)
		p[subnet.FamilyOf(prefix.Addr())] = prefix
	}
	return p
}

func config(t *testing.T, text string) subnet.Config {
	t.Helper()
	cfg, err := subnet.ParseConfig([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

const (
	ipv4 = `{"Network":"10.5.0.0/16"}`
	ipv6 = `{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:5::/48"}`
	dual = `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:5::/48"}`
)

// What flannel writes, byte for byte, from a lease and back to what to lease.
func TestFile(t *testing.T) {
	for _, c := range []struct {
		name, config string
		subnets      subnet.Pair[netip.Prefix]
		mtu          int
		ipMasq       bool
		want         string
	}{
		{"IPv4", ipv4, prefixes("10.5.34.0/24"), 1450, false, `FLANNEL_NETWORK=10.5.0.0/16
FLANNEL_SUBNET=10.5.34.1/24
FLANNEL_MTU=1450
FLANNEL_IPMASQ=false
`},
		{"IPv6", ipv6, prefixes("fd00:5:0:22::/64"), 1430, true, `FLANNEL_IPV6_NETWORK=fd00:5::/48
FLANNEL_IPV6_SUBNET=fd00:5:0:22::1/64
FLANNEL_MTU=1430
FLANNEL_IPMASQ=true
`},
		{"both", dual, prefixes("10.5.34.0/24", "fd00:5:0:22::/64"), 1450, true, `FLANNEL_NETWORK=10.5.0.0/16
FLANNEL_SUBNET=10.5.34.1/24
FLANNEL_IPV6_NETWORK=fd00:5::/48
FLANNEL_IPV6_SUBNET=fd00:5:0:22::1/64
FLANNEL_MTU=1450
FLANNEL_IPMASQ=true
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := config(t, c.config)
			e := Of(cfg, subnet.Lease{Subnets: c.subnets}, c.mtu, c.ipMasq)
			text := Format(e)
			if string(text) != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", text, c.want)
			}
			read, err := Parse(text)
			if err != nil || read != e {
				t.Errorf("read %+v, %v\nwant %+v", read, err, e)
			}
			if want := read.Want(cfg); want != c.subnets {
				t.Errorf("wants %v again", want)
			}
		})
	}
}

// TestParse checks env files of tulle, of flannel and of people.
func TestParse(t *testing.T) {
	whole := Env{prefixes("10.5.0.0/16"), prefixes("10.5.34.1/24"), 1450, true}
	for _, c := range []struct {
		name, text string
		want       Env
	}{
		{"nothing", "", Env{}},
		{"flannel's of old", "FLANNEL_SUBNET=10.5.34.1/24\nFLANNEL_MTU=1472\n", Env{Subnets: prefixes("10.5.34.1/24"), MTU: 1472}},
		{"without the first address", "FLANNEL_SUBNET=10.5.34.0/24\n", Env{Subnets: prefixes("10.5.34.0/24")}},
		{"no end of line", "FLANNEL_MTU=1450", Env{MTU: 1450}},
		{"CRLF", "FLANNEL_NETWORK=10.5.0.0/16\r\nFLANNEL_SUBNET=10.5.34.1/24\r\nFLANNEL_MTU=1450\r\nFLANNEL_IPMASQ=true\r\n", whole},
		{"a byte order mark", "\ufeffFLANNEL_MTU=1450\n", Env{MTU: 1450}},
		{"export", "export FLANNEL_NETWORK=10.5.0.0/16\n\texport\tFLANNEL_SUBNET=10.5.34.1/24\nexport  FLANNEL_MTU=1450\n export FLANNEL_IPMASQ=true", whole},
		{"quotes", `FLANNEL_NETWORK="10.5.0.0/16"` + "\nFLANNEL_SUBNET='10.5.34.1/24' # mine\nFLANNEL_MTU=\" 1450 \"\nFLANNEL_IPMASQ='true'# so", whole},
		{"spaces", "  FLANNEL_NETWORK = 10.5.0.0/16  \nFLANNEL_SUBNET= 10.5.34.1/24\t# mine\nFLANNEL_MTU =1450\nFLANNEL_IPMASQ=true ", whole},
		{"comments", "# FLANNEL_MTU=9000\n#FLANNEL_MTU=9000\n\n  # x\nFLANNEL_MTU=1450 # 9000\nFLANNEL_SUBNET=# 10.5.34.1/24\n", Env{MTU: 1450}},
		{"the last wins", "FLANNEL_MTU=1500\nFLANNEL_MTU=oops\nFLANNEL_MTU=1450\n", Env{MTU: 1450}},
		{"empty is none", "FLANNEL_NETWORK=\nFLANNEL_SUBNET=\"\"\nFLANNEL_MTU=''\nFLANNEL_IPMASQ=\n", Env{}},
		{"what is not ours", "PATH=/bin\nDOCKER_OPTS=\"--bip=10.5.34.1/24\nflannel_mtu=9000\nFLANNEL_COLOUR=blue\n=5\n=\nexportFLANNEL_MTU=9000\nnoise\n\x00\xff\nFLANNEL_MTU=1450", Env{MTU: 1450}},
		{"a list of networks", "FLANNEL_NETWORK=10.5.0.0/16,10.6.0.0/16\n", Env{Networks: prefixes("10.5.0.0/16")}},
		{"a truth in another case", "FLANNEL_IPMASQ=TRUE\n", Env{IPMasq: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := Parse([]byte(c.text)); err != nil || got != c.want {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}

// The error names a value that cannot be used. The other values are returned.
func TestParseNamesEveryBadValue(t *testing.T) {
	for _, line := range []string{
		"FLANNEL_NETWORK=10.5.0.0", "FLANNEL_NETWORK=,10.5.0.0/16", "FLANNEL_NETWORK=fd00::/48", "FLANNEL_IPV6_NETWORK=10.5.0.0/16",
		"FLANNEL_SUBNET=10.5.34.1/33", "FLANNEL_SUBNET=10.5.34.1/24,10.5.35.1/24", "FLANNEL_SUBNET=\"10.5.34.1/24", "FLANNEL_SUBNET=$X",
		"FLANNEL_IPV6_SUBNET=::ffff:10.5.34.1/120", "FLANNEL_IPV6_SUBNET=fe80::1%eth0/64", "FLANNEL_IPV6_SUBNET=10.5.34.1/24",
		"FLANNEL_MTU=-1", "FLANNEL_MTU=65536", "FLANNEL_MTU=1450.5", "FLANNEL_MTU=" + strings.Repeat("9", 1000),
		"FLANNEL_IPMASQ=maybe",
	} {
		key, _, _ := strings.Cut(line, "=")
		got, err := Parse(fmt.Appendf(nil, "%s\nFLANNEL_OTHER=x\n", line))
		if err == nil || !strings.Contains(err.Error(), key) || len(err.Error()) > 200 || got != (Env{}) {
			t.Errorf("%.80s: %+v, %v", line, got, err)
		}
	}
	got, err := Parse([]byte("FLANNEL_SUBNET=10.5.34.1/24\nFLANNEL_MTU=x\nFLANNEL_IPMASQ=y\n"))
	if err == nil || strings.Count(err.Error(), "\n") != 1 || got.Subnets != prefixes("10.5.34.1/24") {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := Parse(bytes.Repeat([]byte("#\n"), 1<<20)); err == nil {
		t.Error("a file of any size is read")
	}
}

// Only what the network still leases is asked for.
func TestWant(t *testing.T) {
	for _, c := range []struct {
		config, subnets string
		want            subnet.Pair[netip.Prefix]
	}{
		{dual, "10.5.34.1/24 fd00:5:0:22::1/64", prefixes("10.5.34.0/24", "fd00:5:0:22::/64")},
		{dual, "10.5.34.1/24", prefixes("10.5.34.0/24")},
		{ipv4, "10.5.34.1/24 fd00:5:0:22::1/64", prefixes("10.5.34.0/24")},
		{ipv6, "10.5.34.1/24 fd00:5:0:22::1/64", prefixes("fd00:5:0:22::/64")},
		{ipv4, "10.6.34.1/24", subnet.Pair[netip.Prefix]{}},
		{ipv4, "10.5.34.1/25", subnet.Pair[netip.Prefix]{}},
		{`{"Network":"10.5.0.0/16","SubnetMin":"10.5.40.0"}`, "10.5.34.1/24", subnet.Pair[netip.Prefix]{}},
		{ipv4, "", subnet.Pair[netip.Prefix]{}},
	} {
		e := Env{Subnets: prefixes(strings.Fields(c.subnets)...)}
		if got := e.Want(config(t, c.config)); got != c.want {
			t.Errorf("%s of %s: got %v, want %v", c.subnets, c.config, got, c.want)
		}
	}
}

// TestRead reads a file, and checks the errors for a missing file, a folder and a huge file.
func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subnet.env")
	if _, err := Read(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
	if _, err := Read(filepath.Dir(path)); err == nil {
		t.Error("a folder was read")
	}
	want := Env{MTU: 1450, Subnets: prefixes("10.5.34.1/24")}
	if err := os.WriteFile(path, Format(want), 0o600); err != nil {
		t.Fatal(err)
	}
	if e, err := Read(path); err != nil || e != want {
		t.Errorf("read %+v, %v", e, err)
	}
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil {
		t.Error("a terabyte was read")
	}
}

// Whatever is read is valid, and is read again from what is written of it.
func FuzzParse(f *testing.F) {
	f.Add([]byte("FLANNEL_NETWORK=10.5.0.0/16\nexport FLANNEL_SUBNET='10.5.34.1/24' # x\r\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"))
	f.Add([]byte("FLANNEL_IPV6_NETWORK=fd00::/48,\nFLANNEL_IPV6_SUBNET=\"fd00::1/64\n=\n#\nFLANNEL_MTU=x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, _ := Parse(text)
		for _, p := range []subnet.Pair[netip.Prefix]{e.Networks, e.Subnets} {
			for f, prefix := range p {
				if prefix.IsValid() && subnet.FamilyOf(prefix.Addr()) != subnet.Family(f) {
					t.Errorf("%s instead of %s", prefix, subnet.Family(f))
				}
			}
		}
		if e.MTU < 0 || e.MTU > maxMTU {
			t.Errorf("MTU %d", e.MTU)
		}
		if again, err := Parse(Format(e)); err != nil || again != e {
			t.Errorf("read again %+v, %v\nwant %+v", again, err, e)
		}
	})
}
