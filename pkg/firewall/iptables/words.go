package iptables

import "strings"

// word is one argument of a rule. A quoted one is never an option.
type word struct {
	text   string
	quoted bool
}

// split splits a rule as iptables-restore does. whole is false if a quote is not
// closed.
func split(s string) (words []word, whole bool) {
	var b strings.Builder
	in, quoted := false, false // in a word, and in a quote within it
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

// quote quotes a word so that split returns it.
func quote(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\"\\") && s[0] != '-' && s[0] != '!' {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
