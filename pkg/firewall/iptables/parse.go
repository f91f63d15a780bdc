package iptables

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tulle-net/tulle/pkg/firewall"
)

const (
	// longestLine is the limit of a line; a longer rule is opaque.
	longestLine = 64 << 10
	// mostOutput is the limit of a command's output, many times the largest tables.
	mostOutput = 256 << 20
)

// table is one table as iptables-save writes it.
type table struct {
	chains   map[string][]ruleLine // with the rules that were kept
	policies map[string]string
	// foreign marks a table with rules that only nft can show.
	foreign bool
}

func (t *table) isChain(name string) bool {
	_, ok := t.chains[name]
	return ok
}

// bare reports whether a chain accepts all packets, as an unused chain does.
func (t *table) bare(chain string) bool {
	return len(t.chains[chain]) == 0 && t.policies[chain] != "DROP" && !t.foreign
}

var errCutOff = errors.New("truncated output of iptables-save")

// parse parses the output of iptables-save. It skips rules that keep rejects; the
// other rules of their chain move up.
func parse(r io.Reader, keep func(chain, spec string) bool) (map[string]*table, error) {
	tables := map[string]*table{}
	in := bufio.NewReaderSize(r, longestLine)
	var now *table
	for {
		text, long, err := readLine(in)
		if err == io.EOF && text == "" {
			break
		}
		if err != nil && err != io.EOF {
			return nil, err
		}
		switch {
		case text == "":
		case text[0] == '#':
			if name, ok := cutBoth(text, "# Table `", "' is incompatible"); ok {
				tables[name] = &table{foreign: true}
			}
		case text[0] == '*':
			if now != nil {
				return nil, errCutOff
			}
			now = &table{chains: map[string][]ruleLine{}, policies: map[string]string{}}
			tables[text[1:]] = now
		case text == "COMMIT":
			now = nil
		case text[0] == ':' && now != nil:
			name, policy, _ := strings.Cut(text[1:], " ")
			policy, _, _ = strings.Cut(policy, " ")
			now.chains[name], now.policies[name] = nil, policy
		default:
			if !long && (text[0] == '-' || text[0] == '[') {
				if text, long, err = readOn(in, text); err != nil {
					return nil, err
				}
			}
			now.rule(text, long, keep)
		}
	}
	if now != nil {
		return nil, errCutOff
	}
	return tables, nil
}

// rule takes in one rule's line, with its counters or without; any other line is
// passed over.
func (t *table) rule(text string, long bool, keep func(chain, spec string) bool) {
	if text[0] == '[' {
		_, text, _ = strings.Cut(text, "] ")
	}
	text, ok := strings.CutPrefix(text, "-A ")
	if !ok || t == nil {
		return
	}
	chain, spec, _ := strings.Cut(text, " ")
	if !t.isChain(chain) || !keep(chain, spec) {
		return
	}
	l := read(spec, t.isChain)
	if strings.Contains(spec, "\n") { // nothing that is written can name such a rule
		l = ruleLine{Rule: firewall.Rule{Opaque: true}, spec: spec}
	}
	l.Opaque = l.Opaque || long
	t.chains[chain] = append(t.chains[chain], l)
}

// readLine reads a line, or the beginning of a long one.
func readLine(in *bufio.Reader) (text string, long bool, err error) {
	b, err := in.ReadSlice('\n')
	text = strings.TrimSuffix(string(b), "\n")
	for err == bufio.ErrBufferFull {
		long = true
		_, err = in.ReadSlice('\n')
	}
	return text, long, err
}

// readOn reads the further lines of a rule that has line breaks in a comment; what
// they hold may look like rules.
func readOn(in *bufio.Reader, text string) (whole string, long bool, err error) {
	for open := opens(text); open && err == nil; {
		var more string
		more, _, err = readLine(in)
		open = opens(more) != open
		if long = long || len(text)+len(more) >= longestLine; !long {
			text += "\n" + more
		}
	}
	if err == io.EOF {
		err = errCutOff
	}
	return text, long, err
}

// opens reports whether s, which begins outside of quotes, ends within.
func opens(s string) (quoted bool) {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == '\\':
			i++
		}
	}
	return quoted
}

func cutBoth(s, before, behind string) (string, bool) {
	s, ok := strings.CutPrefix(s, before)
	s, _, found := strings.Cut(s, behind)
	return s, ok && found
}

// limited reads so much and no more: then it is an error, not the end.
type limited struct {
	io.Reader
	left int
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, fmt.Errorf("more than %d MiB", mostOutput>>20)
	}
	n, err := l.Reader.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}
