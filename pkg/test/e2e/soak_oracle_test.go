package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

var devices = subnet.Pair[string]{"tulle.1", "tulle6.1"}

type lease struct {
	subnets subnet.Pair[netip.Prefix]
	at      subnet.Pair[netip.Addr]
	macs    subnet.Pair[string]
}

var keyPattern = regexp.MustCompile(`^(10\.5\.\d+\.0)-24&(fd00:5:0:[0-9a-f]+::)-64$`)

// parseLease reads a lease that a node has no reason to reject.
func parseLease(key, value string) (l lease, err error) {
	parts := keyPattern.FindStringSubmatch(key)
	if parts == nil {
		return l, errors.New("no key of a lease")
	}
	type data struct{ VtepMAC string }
	var v struct {
		PublicIP, PublicIPv6       netip.Addr
		BackendData, BackendV6Data data
	}
	if err := json.Unmarshal([]byte(value), &v); err != nil {
		return l, err
	}
	l.at = subnet.Pair[netip.Addr]{v.PublicIP, v.PublicIPv6}
	l.macs = subnet.Pair[string]{v.BackendData.VtepMAC, v.BackendV6Data.VtepMAC}
	for f, bits := range []int{24, 64} {
		a, err := netip.ParseAddr(parts[1+f])
		if err != nil {
			return l, err
		}
		l.subnets[f] = netip.PrefixFrom(a, bits)
		if mac, err := net.ParseMAC(l.macs[f]); err != nil || mac[0]&1 != 0 || !l.at[f].IsValid() {
			return l, fmt.Errorf("address %s, MAC %s", l.at[f], l.macs[f])
		}
	}
	return l, nil
}

func expected(own string, believed map[string]lease) (lines []string) {
	lines = []string{
		"neigh 203.0.113.1 02:00:00:00:00:01 other", "route 203.0.113.0/24  other static []", "route 2001:db8::/64  other static []",
	}
	for f, device := range devices {
		address := believed[own].subnets[f].Addr()
		lines = append(lines, fmt.Sprintf("link %s %s mtu %d up true", device, believed[own].macs[f], []int{1450, 1430}[f]),
			fmt.Sprintf("addr %s/%d %s", address, address.BitLen(), device))
		for key, l := range believed {
			if gateway := l.subnets[f].Addr(); key != own {
				lines = append(lines, fmt.Sprintf("route %s %s %s 84 [onlink]", l.subnets[f], gateway, device),
					fmt.Sprintf("neigh %s %s %s", gateway, l.macs[f], device),
					fmt.Sprintf("fdb %s %s %s", l.macs[f], l.at[f], device))
			}
		}
	}
	return lines
}

// kernelOf returns the objects in a host's kernel, in the format of expected: those
// with our protocol, those on tunnel devices, and those on the device other.
func kernelOf(h *clustertest.Host) (lines []string, err error) {
	ours := func(device string) bool { return strings.HasPrefix(device, "tulle") || device == "other" }
	for f, option := range []string{"-4", "-6"} {
		var (
			routes []struct {
				Dst, Gateway, Dev, Protocol string
				Flags                       []string
			}
			neighs []struct{ Dst, Lladdr, Dev string }
			links  []struct {
				Ifname, Address string
				MTU             int
				Flags           []string
			}
			addrs []struct {
				Ifname string
				Addrs  []struct {
					Local     netip.Addr
					Prefixlen int
				} `json:"addr_info"`
			}
		)
		if err := show(h, "route show table all\nneigh show nud permanent\nlink show\naddr show\n", []string{"ip", option, "-j", "-batch", "-"}, &routes, &neighs, &links, &addrs); err != nil {
			return nil, err
		}
		for _, r := range routes {
			if r.Protocol != "kernel" && (ours(r.Dev) || r.Protocol == "84") {
				lines = append(lines, fmt.Sprintf("route %s %s %s %s %v", r.Dst, r.Gateway, r.Dev, r.Protocol, r.Flags))
			}
		}
		for _, n := range neighs {
			if ours(n.Dev) {
				lines = append(lines, fmt.Sprintf("neigh %s %s %s", n.Dst, n.Lladdr, n.Dev))
			}
		}
		for _, l := range links {
			if l.Ifname == devices[f] {
				lines = append(lines, fmt.Sprintf("link %s %s mtu %d up %t", l.Ifname, l.Address, l.MTU, slices.Contains(l.Flags, "UP")))
			}
		}
		for _, l := range addrs {
			for _, a := range l.Addrs {
				if l.Ifname == devices[f] && !a.Local.IsLinkLocalUnicast() {
					lines = append(lines, fmt.Sprintf("addr %s/%d %s", a.Local, a.Prefixlen, l.Ifname))
				}
			}
		}
	}
	var entries []struct{ MAC, Ifname, Dst string }
	err = show(h, "", []string{"bridge", "-j", "fdb", "show"}, &entries)
	for _, e := range entries {
		if ours(e.Ifname) && e.Dst != "" {
			lines = append(lines, fmt.Sprintf("fdb %s %s %s", e.MAC, e.Dst, e.Ifname))
		}
	}
	return lines, err
}

// show runs a command on a host that prints one array of JSON for each element of to,
// and decodes it there.
func show(h *clustertest.Host, input string, command []string, to ...any) error {
	cmd := h.NS.Command(command...)
	cmd.Stdin = strings.NewReader(input)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", cmd, err, &said)
	}
	d := json.NewDecoder(&out)
	for _, each := range to {
		if err := d.Decode(each); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: %w", cmd, err)
		}
	}
	return nil
}

// difference returns an error with the lines that only one of the two has.
func difference(has, want []string) error {
	count := make(map[string]int)
	for _, line := range want {
		count[line]--
	}
	for _, line := range has {
		count[line]++
	}
	var b strings.Builder
	for _, line := range slices.Sorted(maps.Keys(count)) {
		if n := count[line]; n > 0 {
			fmt.Fprintf(&b, "\n  extra:    %s", line)
		} else if n < 0 {
			fmt.Fprintf(&b, "\n  missing:  %s", line)
		}
	}
	if b.Len() == 0 {
		return nil
	}
	return errors.New("the kernel has" + b.String())
}
