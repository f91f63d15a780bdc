package clustertest

import (
	"bytes"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/tulle-net/tulle/subnet"
)

// env is the contents of the env file, which a daemon writes for the container runtime.
type env struct {
	subnets subnet.Pair[netip.Prefix] // the bridge's address in each
	mtu     int
}

// parseEnv reads an env file as far as a CNI plugin needs it, and is as strict. The
// daemon's own parser would not do, because it may accept what others reject.
func parseEnv(text []byte) (e env, err error) {
	for line := range bytes.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(string(line)), "=")
		switch key {
		case "FLANNEL_SUBNET":
			e.subnets[subnet.IPv4], err = netip.ParsePrefix(value)
		case "FLANNEL_IPV6_SUBNET":
			e.subnets[subnet.IPv6], err = netip.ParsePrefix(value)
		case "FLANNEL_MTU":
			e.mtu, err = strconv.Atoi(value)
		}
		if err != nil {
			return env{}, fmt.Errorf("env file: %s: %w", key, err)
		}
	}
	for f, p := range e.subnets {
		if p.IsValid() && subnet.FamilyOf(p.Addr()) != subnet.Family(f) {
			return env{}, fmt.Errorf("env file: %s is not %s", p, subnet.Family(f))
		}
	}
	if !e.subnets[subnet.IPv4].IsValid() && !e.subnets[subnet.IPv6].IsValid() {
		return env{}, fmt.Errorf("env file: no subnet in %q", text)
	}
	if e.mtu <= 0 {
		return env{}, fmt.Errorf("env file: no MTU in %q", text)
	}
	return e, nil
}
