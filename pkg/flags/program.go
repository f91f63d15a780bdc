package flags

import (
	"slices"
	"strings"
)

// Program is what the command line of a program may have.
type Program struct {
	Name  string
	About string // the first sentence of the help
	// Prefixes begin the flags' variables. A variable with an earlier prefix
	// overrides one with a later. One with the first that no flag has is an error,
	// with another it is a warning.
	Prefixes []string
	Example  string // the flag by which the help explains the variables
	Commands []Command
	Flags    []Flag   // those of a group in one piece
	Examples []string // command lines
	Manual   Manual
}

// Command is a word by which the program does something else than its main work.
type Command struct {
	Name  string // "" is the program without a command
	Value string // what the help calls the next word; in brackets if it may be missing
	About string // fits on its line
	// Choices are the words that may follow, where these are few.
	Choices []string
	// Uses are the flags, or the groups of flags, that the help of the command lists
	// beside its own.
	Uses []string
	// Set takes the word that follows, or "".
	Set func(word string) error
}

// Flag is one flag, and its variables.
type Flag struct {
	Name  string
	Group string // its heading in the help
	// Value is what the help calls the value. FILE and DIR are paths. A boolean
	// has none, and the flag alone means true.
	Value   string
	About   string // fits on its line
	Default string // as one would write it
	// Choices are its values, where these are few.
	Choices    []string
	Interfaces bool // its values are the host's network interfaces
	Many       bool // a repeated flag adds; otherwise the last one counts
	Secret     bool // the value is never shown
	// Only are the commands that the flag belongs to. Without them it is refused. A
	// flag without any may always be given.
	Only []string
	Set  func(value string) error
}

// Help and Version are flags that every program has. Given.Wants asks for them.
var (
	Help    = Flag{Name: "help", Default: "false", About: "print this help", Set: checked(Bool)}
	Version = Flag{Name: "version", Default: "false", About: "print the version", Set: checked(Bool)}
)

// In returns the flag under a heading of the help.
func (f Flag) In(group string) Flag {
	f.Group = group
	return f
}

// Written returns the name with its dashes.
func (f Flag) Written() string {
	if len(f.Name) == 1 {
		return "-" + f.Name
	}
	return "--" + f.Name
}

// Variable returns what the flag is called in the environment, behind a prefix.
func (f Flag) Variable() string {
	return strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
}

// about returns what the flag does, beside the flags of other commands.
func (f Flag) about() string {
	if len(f.Only) == 1 {
		return f.Only[0] + ": " + f.About
	}
	return f.About
}

// isFor reports whether the flag may be given with a command; "" is the program
// without one.
func (f Flag) isFor(command string) bool { return len(f.Only) == 0 || slices.Contains(f.Only, command) }

func (f Flag) isBool() bool { return f.Value == "" }

// hasDefault reports whether there is a default worth a word.
func (f Flag) hasDefault() bool { return f.Default != "" && f.Default != "false" }

// Find returns the flag of a name.
func (p Program) Find(name string) (Flag, bool) {
	i := slices.IndexFunc(p.Flags, func(f Flag) bool { return f.Name == name })
	if i < 0 {
		return Flag{}, false
	}
	return p.Flags[i], true
}

// nearest returns the flag that name is probably a typo of.
func (p Program) nearest(name string) (Flag, bool) {
	var names []string
	for _, f := range p.Flags {
		names = append(names, f.Name)
	}
	return p.Find(Nearest(name, names))
}

// named returns the commands that have a name.
func (p Program) named() []Command {
	return slices.DeleteFunc(slices.Clone(p.Commands), func(c Command) bool { return c.Name == "" })
}

// command returns the command of a name.
func (p Program) command(name string) (Command, bool) {
	i := slices.IndexFunc(p.Commands, func(c Command) bool { return c.Name == name })
	if i < 0 || name == "" {
		return Command{}, false
	}
	return p.Commands[i], true
}

// seeHelp is the fix where there is no better one.
func (p Program) seeHelp() string { return "see " + p.Name + " --help" }
