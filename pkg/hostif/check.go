package hostif

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"unicode"

	"github.com/tulle-net/tulle/subnet"
)

// SettingError is returned for a setting that can never lead to an uplink.
type SettingError struct {
	Setting, Value string
	Why, Fix       string
}

func (e *SettingError) Error() string {
	return fmt.Sprintf("%s=%s: %s; %s", e.Setting, shown(e.Value), e.Why, e.Fix)
}

// Check rejects settings that make no sense on any host, with a *SettingError.
func (s Spec) Check() error {
	names := s.Names.OrWords()
	for _, iface := range s.Ifaces {
		if why := impossible(iface); why != "" {
			return &SettingError{names.Iface, iface, why, "use an interface's name, or its address without a prefix length"}
		}
	}
	for _, expr := range s.IfaceRegexes {
		if why := unfit(expr); why != "" {
			return &SettingError{names.IfaceRegex, expr, why, `use one like "^eth" or "^192\.168\."`}
		}
	}
	if a := s.CanReach; a.IsValid() && (a.Zone() != "" || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback()) {
		return &SettingError{names.CanReach, a.String(), "not the address of a single host", "use that of another host"}
	}
	return s.checkPublicIP(names)
}

func (s Spec) checkPublicIP(names Names) error {
	for f, a := range s.PublicIP {
		if !a.IsValid() {
			continue
		}
		refusal := &SettingError{names.PublicIP[f], a.String(), "", fmt.Sprintf("use the %s address at which other hosts reach this one", subnet.Family(f))}
		switch {
		case subnet.FamilyOf(a) != subnet.Family(f) || a.Is4In6():
			refusal.Why = fmt.Sprintf("not an %s address", subnet.Family(f))
		case !a.IsGlobalUnicast() || a.Zone() != "":
			refusal.Why = "not reachable from other hosts"
		case s.overlay(a):
			refusal.Why = "inside the overlay network"
		default:
			continue
		}
		return refusal
	}
	return nil
}

// impossible returns why no interface can be called iface or have it as its
// address, by the kernel's rules for names.
func impossible(iface string) string {
	a, err := netip.ParseAddr(iface)
	switch {
	case err == nil && (a.Zone() != "" || a.IsUnspecified() || a.IsMulticast()):
		return "not reachable from other hosts"
	case err == nil:
		return ""
	case len(iface) > longestName:
		return fmt.Sprintf("longer than the %d bytes of an interface name", longestName)
	case iface == ".", iface == "..", strings.ContainsFunc(iface, notInName):
		return "not an interface name"
	}
	return ""
}

const longestName = 15

func notInName(r rune) bool {
	return r == 0 || r == '/' || r == ':' || unicode.IsSpace(r)
}

// longestRegex is more than enough for names and addresses. A longer expression could
// use up all memory.
const longestRegex = 1000

// unfit returns why expr cannot be used.
func unfit(expr string) string {
	if len(expr) > longestRegex {
		return fmt.Sprintf("longer than %d bytes", longestRegex)
	}
	if _, err := regexp.Compile(expr); err != nil {
		return shown(err.Error())
	}
	return ""
}
