package subnet

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// asWritten reads a value in exactly the form that tulle and flannel write, with
// plain text in it. Nearly all values are. encoding/json would take ten times as
// long. ok is false for any other form. What it returns as backend data need not be
// JSON: Attrs.Validate checks that.
func asWritten(text []byte) (a Attrs, ok bool) {
	s := scanner{rest: text}
	if !s.skip(`{"PublicIP":`) {
		return Attrs{}, false
	}
	a.PublicIP[IPv4] = s.address()
	if s.skip(`,"PublicIPv6":`) {
		a.PublicIP[IPv6] = s.address()
	}
	if s.skip(`,"BackendType":`) {
		a.BackendType = BackendName(s.text())
	}
	if s.skip(`,"BackendData":`) {
		a.BackendData[IPv4] = s.object()
	}
	if s.skip(`,"BackendV6Data":`) {
		a.BackendData[IPv6] = s.object()
	}
	if s.skip(`,"Tulle":{`) {
		comma := ""
		if s.skip(`"NodeID":`) {
			a.Node.ID, comma = string(s.text()), ","
		}
		if s.skip(comma + `"NodeName":`) {
			a.Node.Name, comma = string(s.text()), ","
		}
		if s.skip(comma + `"MTU":`) {
			a.Node.MTU, comma = s.number(), ","
		}
		if s.skip(comma + `"Instance":`) {
			a.Node.Instance = string(s.text())
		}
		s.failed = s.failed || !s.skip(`}`)
	}
	if !s.skip(`}`) || s.failed || len(s.rest) > 0 {
		return Attrs{}, false
	}
	return a, true
}

// appendWritten appends to b the value that asWritten reads. ok is false for
// attributes with other than plain text.
func appendWritten(b []byte, a Attrs) (text []byte, ok bool) {
	if a.Move != "" {
		return b, false // for a while only
	}
	w := printer{text: append(b, `{"PublicIP":`...)}
	if !a.PublicIP[IPv4].IsValid() {
		a.PublicIP[IPv4] = netip.IPv4Unspecified()
	}
	w.address(a.PublicIP[IPv4])
	w.add(`,"PublicIPv6":`)
	w.address(a.PublicIP[IPv6])
	w.string(`,"BackendType":`, a.BackendType)
	w.object(`,"BackendData":`, a.BackendData[IPv4])
	w.object(`,"BackendV6Data":`, a.BackendData[IPv6])
	if a.Node != (Node{}) {
		w.add(`,"Tulle":{`)
		begin := len(w.text)
		w.string(`,"NodeID":`, a.Node.ID)
		w.string(`,"NodeName":`, a.Node.Name)
		if a.Node.MTU != 0 {
			w.add(`,"MTU":`)
			w.text = strconv.AppendInt(w.text, int64(a.Node.MTU), 10)
		}
		w.string(`,"Instance":`, a.Node.Instance)
		w.text = slices.Delete(w.text, begin, begin+1) // the first comma
		w.add(`}`)
	}
	w.add(`}`)
	return w.text, !w.failed
}

// printer appends to a text. failed stays set after the first thing that is not plain.
type printer struct {
	text   []byte
	failed bool
}

func (w *printer) add(s string) { w.text = append(w.text, s...) }

// string appends a name and a quoted string, unless that is empty.
func (w *printer) string(name, s string) {
	if s == "" {
		return
	}
	w.add(name)
	w.add(`"`)
	w.plain(s)
	w.add(`"`)
}

// object appends a name and an object that contains no other, unless it is empty.
func (w *printer) object(name, s string) {
	if s == "" {
		return
	}
	inside, begins := strings.CutPrefix(s, "{")
	inside, ends := strings.CutSuffix(inside, "}")
	if !begins || !ends {
		w.failed = true
		return
	}
	w.add(name)
	w.add("{")
	for i := range len(inside) {
		w.failed = w.failed || !plain(inside[i])
	}
	w.add(inside)
	w.add("}")
}

func (w *printer) plain(s string) {
	for i := range len(s) {
		w.failed = w.failed || !plain(s[i]) || s[i] == '"'
	}
	w.add(s)
}

// address appends null for the zero Addr.
func (w *printer) address(a netip.Addr) {
	if !a.IsValid() {
		w.add("null")
		return
	}
	w.add(`"`)
	w.text = a.AppendTo(w.text)
	w.add(`"`)
}

// plain reports whether JSON writes c in one way only, in a string or outside.
func plain(c byte) bool {
	switch c {
	case '\\', '<', '>', '&', '{', '}':
		return false
	}
	return c > ' ' && c < 0x7f
}

// scanner steps through a text. failed stays set after the first mismatch.
type scanner struct {
	rest   []byte
	failed bool
}

// skip steps over what, and reports whether it was there.
func (s *scanner) skip(what string) bool {
	if len(s.rest) < len(what) || string(s.rest[:len(what)]) != what {
		return false
	}
	s.rest = s.rest[len(what):]
	return true
}

// until returns the text before the next end byte, and steps over both. It fails on
// any character that JSON can write in more than one way.
func (s *scanner) until(end byte) []byte {
	for i, c := range s.rest {
		switch {
		case c == end:
			text := s.rest[:i]
			s.rest = s.rest[i+1:]
			return text
		case !plain(c):
			s.failed = true
			return nil
		}
	}
	s.failed = true
	return nil
}

func (s *scanner) text() []byte {
	if !s.skip(`"`) {
		s.failed = true
		return nil
	}
	return s.until('"')
}

// address reads null or an address. It returns the zero Addr for an unspecified one.
func (s *scanner) address() netip.Addr {
	if s.skip("null") {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(string(s.text()))
	s.failed = s.failed || err != nil
	if a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}

// object reads what is an object, if it is JSON, that contains no other.
func (s *scanner) object() string {
	whole := s.rest
	if !s.skip("{") {
		s.failed = true
		return ""
	}
	inside := s.until('}')
	if s.failed {
		return ""
	}
	return string(whole[:len(inside)+2])
}

func (s *scanner) number() int {
	digits := 0
	for digits < len(s.rest) && s.rest[digits] >= '0' && s.rest[digits] <= '9' {
		digits++
	}
	n, err := strconv.Atoi(string(s.rest[:digits]))
	s.failed = s.failed || err != nil || digits > 6 || digits > 1 && s.rest[0] == '0'
	s.rest = s.rest[digits:]
	return n
}

// BackendName returns the name of a backend as a string. The names of flannel's and
// tulle's backends are constants, so that thousands of peers share one.
func BackendName(name []byte) string {
	for _, k := range [...]string{"vxlan", "host-gw", "wireguard", "ipip", "udp", "alloc"} {
		if string(name) == k {
			return k
		}
	}
	return string(name)
}
