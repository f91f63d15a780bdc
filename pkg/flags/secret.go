package flags

import (
	"fmt"
	"io"
	"strings"
)

// Secret is a text that is never printed, whatever prints it. It is a pointer
// for fmt's sake, which prints unexported fields without asking their type.
type Secret struct{ text *string }

// NewSecret hides text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal is the text; "" where there is none.
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

// Format is String whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// Secrets are the parts of a command line, without the program's name, that are
// secrets. They share the memory of args.
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

// hidden stands for what is not shown.
const hidden = "…"
