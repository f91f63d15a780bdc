package flags

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// WriteHelp writes the commands and flags of the program.
func (p Program) WriteHelp(w io.Writer) error {
	var b strings.Builder
	b.WriteString(p.About + "\n\nUsage:\n")
	for _, c := range p.Commands {
		b.WriteString(line("  "+p.usage(c), p.commandColumn(), c.About))
	}
	b.WriteString("\n" + p.variables() + "\n")
	group := ""
	for _, f := range p.Flags {
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(&b, "\n%s:\n", group)
		}
		b.WriteString(f.line(p.flagColumn(), f.about()))
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

// WriteCommandHelp writes what a command does, and the flags that it uses. An
// unknown command is an *Error.
func (p Program) WriteCommandHelp(w io.Writer, name string) error {
	c, exists := p.command(name)
	if !exists {
		return (&Given{program: p, words: []string{name}}).stray(0)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s.\n\nUsage:\n  %s\n", p.usage(Command{Name: name}), c.About, p.usage(c)+" [flags]")
	for _, own := range []bool{true, false} {
		heading := "\nFlags of this command:\n"
		if !own {
			heading = "\nFlags that it shares with the daemon:\n"
		}
		for _, f := range p.Flags {
			uses := len(f.Only) == 0 && (slices.Contains(c.Uses, f.Name) || slices.Contains(c.Uses, f.Group))
			if own && slices.Contains(f.Only, name) || !own && uses {
				b.WriteString(heading + f.line(p.flagColumn(), f.About))
				heading = ""
			}
		}
	}
	b.WriteString("\n" + p.variables() + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// left returns the left column of the help: the flag and its value.
func (f Flag) left() string { return strings.TrimRight("  "+f.Written()+" "+f.Value, " ") }

// line returns the flag's line of the help.
func (f Flag) line(column int, about string) string {
	if f.hasDefault() {
		about += " (default " + f.Default + ")"
	}
	return line(f.left(), column, about)
}

// usage returns a command as a user types it.
func (p Program) usage(c Command) string {
	return strings.Join(strings.Fields(p.Name+" "+c.Name+" "+c.Value), " ")
}

// leastColumn is the leftmost column for the texts of commands and flags.
const leastColumn = 31

// commandColumn returns where the texts of commands begin: behind every command.
func (p Program) commandColumn() int {
	column := leastColumn
	for _, c := range p.Commands {
		column = max(column, utf8.RuneCountInString("  "+p.usage(c))+2)
	}
	return column
}

// flagColumn returns where the texts of flags begin: behind every flag.
func (p Program) flagColumn() int {
	column := leastColumn
	for _, f := range p.Flags {
		column = max(column, utf8.RuneCountInString(f.left())+2)
	}
	return column
}

// line returns a line of the help.
func line(left string, column int, about string) string {
	return left + strings.Repeat(" ", column-utf8.RuneCountInString(left)) + about + "\n"
}

// variables returns the help on the flags' variables.
func (p Program) variables() string {
	example, _ := p.Find(p.Example)
	var all []string
	for _, prefix := range p.Prefixes {
		all = append(all, prefix+example.Variable())
	}
	return fmt.Sprintf("Every flag is also a variable: %s is %s.\n%s.", example.Written(), strings.Join(all, ", or "), p.precedence(" "))
}

// precedence returns the sentence on which of a flag's values counts.
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
