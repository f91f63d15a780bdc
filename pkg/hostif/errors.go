package hostif

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// NoUplinkError is returned for a family without an uplink.
type NoUplinkError struct {
	Family  subnet.Family
	Setting string   // the name of the setting that gives the uplink
	Tried   []string // each way to an interface, and its result
	Seen    []string // the interfaces and their addresses
}

func (e *NoUplinkError) Error() string {
	tried := e.Tried
	if more := len(tried) - mostSeen; more > 0 {
		tried = append(slices.Clip(tried[:mostSeen]), fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("no %s uplink: %s; the host has %s; set %s to an interface or an address, or Enable%s to false in the network's config",
		e.Family, strings.Join(tried, "; "), strings.Join(e.Seen, ", "), e.Setting, e.Family)
}

// same reports whether the same is missing for the same reasons, whatever else the
// host has. nil means that nothing is missing.
func (e *NoUplinkError) same(o *NoUplinkError) bool {
	if e == nil || o == nil {
		return e == o
	}
	return e.Family == o.Family && slices.Equal(e.Tried, o.Tried)
}

// mostSeen bounds what an error lists: a host may have hundreds of containers.
const mostSeen = 10

// describe returns the interfaces with their addresses. It only counts those without
// any, which are usually the containers' ends of cables.
func describe(links []netstate.HostLink) []string {
	var seen []string
	bare, more := 0, 0
	for _, l := range links {
		switch {
		case len(l.Addrs) == 0:
			bare++
			continue
		case len(seen) == mostSeen:
			more++
			continue
		}
		addrs := make([]string, len(l.Addrs))
		for i, a := range l.Addrs {
			addrs[i] = a.String()
		}
		seen = append(seen, l.Name+" ("+strings.Join(addrs, " ")+")")
	}
	if more > 0 {
		seen = append(seen, fmt.Sprintf("%d more", more))
	}
	if bare > 0 {
		seen = append(seen, fmt.Sprintf("%d without an address", bare))
	}
	return seen
}

// mostShown is the size limit of a setting's value in a message.
const mostShown = 100

// shown returns text for a message: one short line.
func shown(text string) string {
	if len(text) > mostShown {
		text = strings.ToValidUTF8(text[:mostShown], "") + "…"
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) || !utf8.ValidString(text) {
		return strconv.Quote(text)
	}
	return text
}
