package flags

import (
	"fmt"
	"io"
	"strings"
)

// Secret is a text that no function prints. It holds a pointer, because fmt prints unexported
// fields without calling their methods.
type Secret struct{ text *string }

// NewSecret hides text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text, or "" if there is none.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String returns the same text for every secret, and "" for none.
func (s Secret) String() string {
	if s.Reveal() == "" {
		return ""
	}
	return hidden
}

// Format writes what String returns, for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// Secrets returns the secret parts of a command line, which has no program name. The parts
// share the memory of args.
func (p Program) Secrets(args []string) (parts []string) {
	next := false
	for _, arg := range args {
		if next {
			parts = append(parts, arg)
		}
		name, value, _ := strings.Cut(arg, "=")
		f, known := p.Find(strings.TrimLeft(name, "-"))
		next = !next && known && f.Secret && name == arg
		if known && f.Secret && value != "" {
			parts = append(parts, value)
		}
	}
	return parts
}

// hidden replaces a text that is not shown.
const hidden = "…"
