package hostif

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"unicode"

	"github.com/tulle-net/tulle/subnet"
)

// FlagError is a flag that can never lead to an interface.
type FlagError struct {
	Flag, Value string
	Why, Fix    string
}

func (e *FlagError) Error() string {
	return fmt.Sprintf("--%s=%s: %s; %s", e.Flag, shown(e.Value), e.Why, e.Fix)
}

// publicFlags are the flags of Spec.PublicIP.
var publicFlags = subnet.Pair[string]{"public-ip", "public-ipv6"}

// Check refuses flags that make no sense on any host, with a *FlagError.
func (s Spec) Check() error {
	for _, iface := range s.Ifaces {
		if why := impossible(iface); why != "" {
			return &FlagError{"iface", iface, why, "give an interface's name, or its address without a length"}
		}
	}
	for _, expr := range s.IfaceRegexes {
		if why := unfit(expr); why != "" {
			return &FlagError{"iface-regex", expr, why, `write one like "^eth" or "^192\.168\."`}
		}
	}
	if a := s.CanReach; a.IsValid() && (a.Zone() != "" || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback()) {
		return &FlagError{"iface-can-reach", a.String(), "no route leads to one host there", "give the address of another host"}
	}
	return s.checkPublicIP()
}

func (s Spec) checkPublicIP() error {
	for f, a := range s.PublicIP {
		if !a.IsValid() {
			continue
		}
		refusal := &FlagError{publicFlags[f], a.String(), "", fmt.Sprintf("give the %s address by which the other hosts reach this one", subnet.Family(f))}
		switch {
		case subnet.FamilyOf(a) != subnet.Family(f) || a.Is4In6():
			refusal.Why = fmt.Sprintf("not an %s address", subnet.Family(f))
		case !a.IsGlobalUnicast() || a.Zone() != "":
			refusal.Why = "no other host can send there"
		case s.overlay(a):
			refusal.Why = "it belongs to the overlay network"
		default:
			continue
		}
		return refusal
	}
	return nil
}

// impossible says why no interface can be called iface or have it as its
// address, by the kernel's rules for names.
func impossible(iface string) string {
	a, err := netip.ParseAddr(iface)
	switch {
	case err == nil && (a.Zone() != "" || a.IsUnspecified() || a.IsMulticast()):
		return "no other host can send there"
	case err == nil:
		return ""
	case len(iface) > longestName:
		return fmt.Sprintf("no interface has a name of more than %d bytes", longestName)
	case iface == ".", iface == "..", strings.ContainsFunc(iface, notInName):
		return "no interface can have that name"
	}
	return ""
}

const longestName = 15

func notInName(r rune) bool {
	return r == 0 || r == '/' || r == ':' || unicode.IsSpace(r)
}

// longestRegex is more than enough for names and addresses; a longer one could
// take all the memory.
const longestRegex = 1000

// unfit says why expr cannot be used.
func unfit(expr string) string {
	if len(expr) > longestRegex {
		return fmt.Sprintf("it has more than %d bytes", longestRegex)
	}
	if _, err := regexp.Compile(expr); err != nil {
		return shown(err.Error())
	}
	return ""
}
