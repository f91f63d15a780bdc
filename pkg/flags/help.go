package flags

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// WriteHelp writes the commands and flags of the program.
func (p Program) WriteHelp(w io.Writer) error {
	var b strings.Builder
	b.WriteString(p.About + "\n\nUsage:\n")
	for _, c := range p.Commands {
		b.WriteString(line("  "+p.usage(c), commandColumn, c.About))
	}
	b.WriteString("\n" + p.variables() + "\n")
	group := ""
	for _, f := range p.Flags {
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(&b, "\n%s:\n", group)
		}
		left, about := "  "+f.Written(), f.About
		if f.Value != "" {
			left += " " + f.Value
		}
		if f.hasDefault() {
			about += " (default " + f.Default + ")"
		}
		b.WriteString(line(left, flagColumn, about))
	}
	if len(p.Examples) > 0 {
		b.WriteString("\nExamples:\n")
	}
	for _, example := range p.Examples {
		b.WriteString("  " + example + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// usage returns a command as one calls it.
func (p Program) usage(c Command) string {
	return strings.Join(strings.Fields(p.Name+" "+c.Name+" "+c.Value), " ")
}

// The columns at which the texts of commands and flags begin.
const (
	commandColumn = 31
	flagColumn    = 39
)

// line returns a line of the help.
func line(left string, column int, about string) string {
	return left + strings.Repeat(" ", max(column-utf8.RuneCountInString(left), 1)) + about + "\n"
}

// variables explains the flags' variables.
func (p Program) variables() string {
	example, _ := p.Find(p.Example)
	var all []string
	for _, prefix := range p.Prefixes {
		all = append(all, prefix+example.Variable())
	}
	return fmt.Sprintf("Every flag is also a variable: %s is %s.\n%s.", example.Written(), strings.Join(all, ", or "), p.precedence(" "))
}

// precedence says which of a flag's values counts.
func (p Program) precedence(space string) string {
	stronger, text := "A flag", ""
	for i, prefix := range p.Prefixes {
		what := prefix
		if len(p.Prefixes) == 1 {
			what = "its variable"
		}
		if i > 0 {
			text += ", "
		}
		text += stronger + " overrides " + what
		stronger = prefix
	}
	return text + "," + space + "and an empty variable counts as unset"
}
