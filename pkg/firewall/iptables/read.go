package iptables

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/tulle-net/tulle/pkg/firewall"
)

// ruleLine is one rule as iptables-save writes it.
type ruleLine struct {
	firewall.Rule
	comment string
	spec    string // everything after the chain's name
}

// kubeMark is the text of the match for kube-proxy's mark.
var kubeMark = fmt.Sprintf("%#x/%#x", firewall.KubeMark, firewall.KubeMark)

// read parses a rule. isChain reports whether a target is a chain. What read does not
// understand makes the rule opaque, and is no error: the rule is foreign.
func read(spec string, isChain func(name string) bool) ruleLine {
	r := reader{ruleLine: ruleLine{spec: spec}}
	var whole bool
	r.words, whole = split(spec)
	r.Opaque = !whole
	for len(r.words) > 0 {
		if r.targets(r.words[0]) {
			goTo := r.take().text
			r.end(goTo == "-g" || goTo == "--goto", r.take().text, isChain)
			break
		}
		if !r.match() {
			r.Opaque = true
		}
	}
	return r.ruleLine
}

// reader is a rule that is being parsed.
type reader struct {
	ruleLine
	words  []word // still to be parsed
	module string // of the match that options belong to
}

func (r *reader) take() (w word) {
	if len(r.words) > 0 {
		w, r.words = r.words[0], r.words[1:]
	}
	return w
}

// negated consumes an exclamation mark, if there is one.
func (r *reader) negated() bool {
	if len(r.words) > 0 && r.words[0] == (word{text: "!"}) {
		r.take()
		return true
	}
	return false
}

func (r *reader) targets(w word) bool {
	return !w.quoted && (w.text == "-j" || w.text == "--jump" || w.text == "-g" || w.text == "--goto")
}

// match parses one condition and reports whether it understood it.
func (r *reader) match() bool {
	not := r.negated()
	option := r.take()
	if option.quoted {
		return false
	}
	value := func() string {
		if r.negated() { // the position in old versions
			not = !not
		}
		return r.take().text
	}
	switch option.text {
	case "-s", "--source", "--src":
		v := value()
		return setNet(&r.From, v, not)
	case "-d", "--destination", "--dst":
		v := value()
		return setNet(&r.To, v, not)
	case "-i", "--in-interface":
		v := value()
		return setIface(&r.In, v, not)
	case "-o", "--out-interface":
		v := value()
		return setIface(&r.Out, v, not)
	case "-c", "--set-counters":
		r.take()
		r.take()
		return !not
	case "-m", "--match":
		r.module = r.take().text
		return !not && (r.module == "comment" || r.module == "mark")
	case "--comment":
		r.comment = r.take().text
		return !not && r.module == "comment"
	case "--mark":
		mark := value()
		r.Marked = !not && r.module == "mark" && mark == kubeMark
		return r.Marked
	}
	return false
}

// end parses a target, which only its options follow.
func (r *reader) end(goTo bool, target string, isChain func(name string) bool) {
	switch {
	case isChain(target):
		r.Does, r.Chain = firewall.Jump, target
		if goTo {
			r.Does = firewall.Goto
		}
	case goTo:
	case target == "ACCEPT":
		r.Does = firewall.Accept
	case target == "DROP", target == "REJECT":
		r.Does = firewall.Drop
	case target == "RETURN":
		r.Does = firewall.Return
	case target == "MASQUERADE":
		r.Does = firewall.Masquerade
		for _, option := range r.words {
			if option == (word{text: "--random-fully"}) {
				r.Does = firewall.MasqueradeRandom
			} else {
				r.Opaque = true
			}
		}
	}
}

// setNet sets a condition that was not set yet. It omits a condition that every
// packet meets, and does not understand one that no packet meets.
func setNet(to *firewall.Net, s string, not bool) bool {
	p, ok := readPrefix(s)
	if !ok || *to != (firewall.Net{}) {
		return false
	}
	if p.Bits() == 0 {
		return !not
	}
	*to = firewall.Net{Prefix: p, Not: not}
	return true
}

func setIface(to *firewall.Iface, s string, not bool) bool {
	name, wild := strings.CutSuffix(s, "+")
	if s == "" || *to != (firewall.Iface{}) {
		return false
	}
	if name == "" {
		return !not
	}
	*to = firewall.Iface{Name: name, Wild: wild, Not: not}
	return true
}

// readPrefix parses an address, which may have its network's length or mask.
func readPrefix(s string) (netip.Prefix, bool) {
	address, mask, masked := strings.Cut(s, "/")
	a, err := netip.ParseAddr(address)
	if err != nil || a.Zone() != "" {
		return netip.Prefix{}, false
	}
	bits := a.BitLen()
	if masked {
		if bits, err = strconv.Atoi(mask); err != nil {
			bits = maskBits(mask)
		}
	}
	p, err := a.Prefix(bits)
	return p, err == nil
}

// maskBits returns the number of bits of a mask, or -1 for one with a hole.
func maskBits(s string) int {
	mask, err := netip.ParseAddr(s)
	if err != nil {
		return -1
	}
	bits, ended := 0, false
	for _, b := range mask.AsSlice() {
		for i := range 8 {
			one := b&(0x80>>i) != 0
			if one && ended {
				return -1
			}
			if ended = !one; one {
				bits++
			}
		}
	}
	return bits
}
