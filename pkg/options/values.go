package options

import (
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/subnet"
)

// The parsers of each kind of value. No value is ever empty.

// publicFrom reports whether the public IP is the Node's external one.
func publicFrom(value string) (external bool, err error) {
	switch value {
	case "interface":
		return false, nil
	case "external":
		return true, nil
	}
	return false, flags.Refuse(value, "unknown source", "use interface or external")
}

func probePort(value string) (uint16, error) {
	n, err := flags.Whole(1, math.MaxUint16)(value)
	return uint16(n), err
}

func minutes(least, most int) func(string) (time.Duration, error) {
	read := flags.Whole(least, most)
	return func(value string) (time.Duration, error) {
		n, err := read(value)
		return time.Duration(n) * time.Minute, err
	}
}

func seconds(least, most int) func(string) (time.Duration, error) {
	read := flags.Whole(least, most)
	return func(value string) (time.Duration, error) {
		n, err := read(value)
		return time.Duration(n) * time.Second, err
	}
}

const (
	// leastTTL leaves room for the least renew margin, which is a minute.
	leastTTL = 2 * time.Minute
	mostTTL  = 365 * 24 * time.Hour
)

func leaseTTL(value string) (time.Duration, error) {
	const fix = "use one from 2m to 8760h, like 24h"
	d, err := time.ParseDuration(value)
	switch {
	case err != nil:
		return 0, flags.Refuse(value, "not a duration", fix)
	case d < leastTTL || d > mostTTL:
		return 0, flags.Refuse(value, "out of range", fix)
	case d%time.Second != 0:
		return 0, flags.Refuse(value, "not whole seconds", fix)
	}
	return d, nil
}

// label reads a name that a lease may contain.
func label(value string) (string, error) {
	const most = 253
	if len(value) > most || !flags.Printable(value) {
		return "", flags.Refuse(value, "not a valid name",
			fmt.Sprintf("use at most %d bytes without spaces", most))
	}
	return value, nil
}

func iface(value string) (string, error) {
	const most = 127 // the limit of an alternative name in bytes
	if len(value) > most || strings.ContainsRune(value, '/') || !flags.Printable(value) {
		return "", flags.Refuse(value, "not an interface name or address", "use one like eth0 or 192.0.2.7")
	}
	return value, nil
}

func pattern(value string) (string, error) {
	if _, err := regexp.Compile(value); err != nil {
		return "", flags.Refuse(value, err.Error(), `use one like "^eth" or "^192\.168\."`)
	}
	return value, nil
}

func reachable(value string) (netip.Addr, error) {
	a, err := flags.Address(value)
	if err == nil && (a.Zone() != "" || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback()) {
		err = flags.Refuse(value, "not the address of a single host", "use that of another host")
	}
	return a, err
}

func public(f subnet.Family) func(string) (netip.Addr, error) {
	return func(value string) (netip.Addr, error) {
		fix := fmt.Sprintf("use the %s address at which other hosts reach this one", f)
		switch a, err := netip.ParseAddr(value); {
		case err != nil:
			return netip.Addr{}, flags.Refuse(value, "not an IP address", fix)
		case subnet.FamilyOf(a.Unmap()) != f:
			return netip.Addr{}, flags.Refuse(value, fmt.Sprintf("not an %s address", f), fix)
		case a.Zone() != "" || !a.Unmap().IsGlobalUnicast():
			return netip.Addr{}, flags.Refuse(value, "not reachable from other hosts", fix)
		default:
			return a.Unmap(), nil
		}
	}
}

// addNetworks adds one or several networks, comma-separated.
func (o *Options) addNetworks(value string) error {
	const fix = "use one IPv4 network, one IPv6 network or both, like 10.5.0.0/16,fd00:5::/48"
	for item := range flags.Items(value) {
		p, err := netip.ParsePrefix(item)
		if err != nil {
			return flags.Refuse(item, "not a network", fix)
		}
		f := subnet.FamilyOf(p.Addr())
		if o.Embedded.Networks[f].IsValid() {
			return flags.Refuse(item, fmt.Sprintf("a second %s network", f), fix)
		}
		o.Embedded.Networks[f] = p.Masked()
	}
	return nil
}

// families reads a boolean for both families, or the name of one.
func families(value string) (subnet.Pair[bool], error) {
	if b, err := strconv.ParseBool(value); err == nil {
		return subnet.Pair[bool]{b, b}, nil
	}
	var on subnet.Pair[bool]
	for _, f := range subnet.Families {
		on[f] = strings.EqualFold(value, f.String())
	}
	if on == (subnet.Pair[bool]{}) {
		return on, flags.Refuse(value, "neither a boolean nor a family", "use true, false, ipv4 or ipv6")
	}
	return on, nil
}

func filter(value string) (Filter, error) {
	f := Filter(value)
	if !slices.Contains([]Filter{FilterAuto, FilterNFTables, FilterIPTables, FilterNone}, f) {
		return "", flags.Refuse(value, "unknown kind of firewall rules", "use auto, nftables, iptables or none")
	}
	return f, nil
}

// addExempt adds one or several networks, comma-separated.
func (o *Options) addExempt(value string) error {
	for item := range flags.Items(value) {
		p, err := netip.ParsePrefix(item)
		if err != nil {
			return flags.Refuse(item, "not a network", "use one like 192.0.2.0/24 or 2001:db8::/32")
		}
		o.Filtering.Exempt = append(o.Filtering.Exempt, p.Masked())
	}
	return nil
}

// wait reads how long to wait. A boolean means forever, or not at all.
func wait(value string) (time.Duration, error) {
	if on, err := flags.Bool(value); err == nil {
		if on {
			return math.MaxInt64, nil
		}
		return 0, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return 0, flags.Refuse(value, "neither a duration nor a boolean", "use one like 30s or 2m")
	}
	return d, nil
}

func backendType(types []string) func(string) (string, error) {
	return func(value string) (string, error) {
		if !slices.Contains(types, value) {
			return "", flags.Refuse(value, "unknown backend", "use one of "+strings.Join(types, ", "))
		}
		return value, nil
	}
}

func annotationPrefix(value string) (string, error) {
	if !regexp.MustCompile(`^[a-z0-9_-]+(\.[a-z0-9_-]+)+(/[a-z0-9_-]*)?$`).MatchString(value) {
		return "", flags.Refuse(value, "not an annotation prefix", "use a domain, like flannel.alpha.coreos.com, with at most one slash")
	}
	return value, nil
}

// vmodule reads a value of klog's flag of that name.
func vmodule(value string) (string, error) {
	for rule := range flags.Items(value) {
		name, level, _ := strings.Cut(rule, "=")
		if n, err := strconv.ParseInt(level, 10, 32); name == "" || err != nil || n < 0 {
			return "", flags.Refuse(rule, "not a file pattern with a level", "use one like peers=2 or watch*=4")
		}
	}
	return value, nil
}

// sourceLine reads a value of klog's log_backtrace_at.
func sourceLine(value string) (string, error) {
	name, line, _ := strings.Cut(value, ":")
	if n, err := strconv.Atoi(line); !strings.Contains(name, ".") || err != nil || n <= 0 {
		return "", flags.Refuse(value, "not a source line", "use one like peers.go:120")
	}
	return value, nil
}

// apiURL reads the API server's URL, which may have a path. The default port depends
// on the scheme.
func apiURL(value string) (string, error) {
	if strings.ContainsAny(value, "@?#") {
		return "", flags.Refuse("", "user, URL with a query or fragment", "use one like https://192.0.2.7:6443")
	}
	u, err := url.Parse(value)
	switch {
	case err != nil:
		return "", flags.Refuse("", "not a URL", "use one like https://192.0.2.7:6443")
	case u.Scheme != "http" && u.Scheme != "https" || !flags.IsHost(u.Host, u.Hostname()):
		return "", flags.Refuse(value, "no valid host in the URL", "use one like https://192.0.2.7:6443")
	}
	return value, nil
}
