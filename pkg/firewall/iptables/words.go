package iptables

import "strings"

// word is one argument of a rule. What was quoted is never an option.
type word struct {
	text   string
	quoted bool
}

// split takes a rule apart as iptables-restore does. It is not whole if a quote
// was left open.
func split(s string) (words []word, whole bool) {
	var b strings.Builder
	in, quoted := false, false // a word, a quote within it
	var w word
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			in, quoted, w.quoted = true, !quoted, true
		case quoted && c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case !quoted && (c == ' ' || c == '\t'):
			if in {
				w.text = b.String()
				words = append(words, w)
				in, w = false, word{}
				b.Reset()
			}
		default:
			in = true
			b.WriteByte(c)
		}
	}
	if in {
		w.text = b.String()
		words = append(words, w)
	}
	return words, !quoted
}

// quote writes a word so that split gives it back.
func quote(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\"\\") && s[0] != '-' && s[0] != '!' {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
