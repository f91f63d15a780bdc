package flags

import (
	"errors"
	"strconv"
	"strings"
	"unicode"
)

// Error refuses a flag, a variable or an argument. It names which one, the reason and the
// fix.
type Error struct {
	Flag  string // as the user wrote it: --iface or TULLED_IFACE; "" is the whole command line
	Value string // "" without a value, or if it may be a secret
	Why   string
	Fix   string // "" if Why already says it
}

func (e *Error) Error() string {
	text := e.Why
	if e.Fix != "" {
		text += "; " + e.Fix
	}
	switch {
	case e.Flag == "":
		return text
	case e.Value == "":
		return e.Flag + ": " + text
	}
	return e.Flag + " is " + shown(e.Value) + ": " + text
}

// At adds to a refusal the flag or variable that it is about. It removes a secret value.
func At(from string, err error, secret bool) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	named := *e
	named.Flag = from
	if secret {
		named.Value = ""
	}
	return &named
}

// Refuse returns an Error about a value. At adds the flag.
func Refuse(value, why, fix string) error { return &Error{Value: value, Why: why, Fix: fix} }

// shown returns a value as errors show it: quoted and shortened. It hides the text before an
// @, which in a URL is a user and a password.
func shown(value string) string {
	const enough = 80
	if at := strings.LastIndexByte(value, '@'); at >= 0 {
		value = hidden + value[at:]
	}
	if len(value) > enough {
		value = strings.ToValidUTF8(value[:enough], "") + hidden
	}
	return strconv.Quote(value)
}

// shownName returns the part of an unknown name that looks like a name. It hides the rest,
// which may be a value, and everything after "password".
func shownName(name string) string {
	const enough = 40
	end := strings.IndexFunc(name, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_'
	})
	if end < 0 {
		end = len(name)
	}
	if i := strings.Index(strings.ToLower(name[:end]), "password"); i >= 0 {
		end = i + len("password")
	}
	if end = min(end, enough); end < len(name) {
		return name[:end] + hidden
	}
	return name
}
