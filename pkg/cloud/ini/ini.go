// Package ini parses INI files in the dialect of git, which the cloud configs of Kubernetes
// use.
package ini

import (
	"fmt"
	"strings"
)

// Entry is a setting.
type Entry struct {
	Line int
	// Section is in lower case.
	Section, Subsection string
	Name, Value         string
}

// Parse returns the settings in their order. A name without a value is "true".
func Parse(text string) (all []Entry, err error) {
	section, subsection := "", ""
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
		switch {
		case line == "" || line[0] == ';' || line[0] == '#':
			continue
		case line[0] == '[':
			if section, subsection, err = parseSection(line); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
			continue
		case section == "":
			return nil, fmt.Errorf("line %d: %.40q stands before the first section; begin with [Global]", n, line)
		}
		name, rest, given := strings.Cut(line, "=")
		e := Entry{Line: n, Section: section, Subsection: subsection, Name: strings.TrimSpace(name), Value: "true"}
		if !isName(e.Name) {
			return nil, fmt.Errorf("line %d: %.40q is not the name of a setting; use letters, digits and dashes", n, e.Name)
		}
		if given {
			if e.Value, err = parseValue(rest); err != nil {
				return nil, fmt.Errorf("line %d: %s: %w", n, e.Name, err)
			}
		}
		all = append(all, e)
	}
	return all, nil
}

// parseSection returns the names in [Section] or [Section "Subsection"].
func parseSection(line string) (section, subsection string, err error) {
	inside, after, closed := strings.Cut(line[1:], "]")
	if rest := strings.TrimSpace(after); !closed || rest != "" && rest[0] != ';' && rest[0] != '#' {
		return "", "", fmt.Errorf("%.40q is not a section; use one like [Global]", line)
	}
	section, subsection, quoted := strings.Cut(strings.TrimSpace(inside), " ")
	if quoted {
		subsection = strings.TrimSpace(subsection)
		if len(subsection) < 2 || subsection[0] != '"' || subsection[len(subsection)-1] != '"' {
			return "", "", fmt.Errorf("%.40q is not a section; use one like [ServiceOverride \"1\"]", line)
		}
		subsection = subsection[1 : len(subsection)-1]
	}
	if !isName(section) {
		return "", "", fmt.Errorf("%.40q is not a section; use one like [Global]", line)
	}
	return strings.ToLower(section), subsection, nil
}

// parseValue returns a value without its quotes, escapes and comment.
func parseValue(text string) (string, error) {
	var b strings.Builder
	quoted, kept := false, 0 // kept is the length without spaces at the end
	text = strings.TrimSpace(text)
	for i := 0; i < len(text); i++ {
		switch ch := text[i]; {
		case ch == '"':
			quoted = !quoted
			kept = b.Len()
		case ch == '\\':
			i++
			if i == len(text) || !strings.ContainsRune(`\"nt`, rune(text[i])) {
				return "", fmt.Errorf(`a backslash before another character than \, ", n or t; write it twice`)
			}
			b.WriteByte(map[byte]byte{'\\': '\\', '"': '"', 'n': '\n', 't': '\t'}[text[i]])
			kept = b.Len()
		case !quoted && (ch == ';' || ch == '#'):
			return b.String()[:kept], nil
		default:
			b.WriteByte(ch)
			if quoted || ch != ' ' && ch != '\t' {
				kept = b.Len()
			}
		}
	}
	if quoted {
		return "", fmt.Errorf("a quote is not closed; add the closing quote")
	}
	return b.String()[:kept], nil
}

// isName reports whether text is a name of a section or a setting.
func isName(text string) bool {
	for i, r := range text {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			return false
		}
	}
	return text != ""
}
