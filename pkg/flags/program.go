package flags

import (
	"slices"
	"strings"
)

// Program describes the command line of a program.
type Program struct {
	Name  string
	About string // the first sentence of the help
	// Prefixes are the prefixes of the flags' variables. A variable with an earlier prefix
	// overrides one with a later prefix. An unknown variable with the first prefix is an
	// error, and with a later one a warning.
	Prefixes []string
	Example  string // the flag with which the help explains the variables
	Commands []Command
	Flags    []Flag   // a group's flags stand together
	Examples []string // command lines
	Manual   Manual
}

// Command is a word that makes the program do something other than its main work.
type Command struct {
	Name  string // "" is the program without a command
	Value string // what the help calls the next word; in brackets if it may be missing
	About string // fits on its line
	// Choices are the words that may follow, if these are few.
	Choices []string
	// Uses are the flags, or the groups of flags, that the command's help lists in addition
	// to its own.
	Uses []string
	// Set takes the word that follows, or "".
	Set func(word string) error
}

// Flag is a flag, and its variables.
type Flag struct {
	Name  string
	Group string // its heading in the help
	// Value is what the help calls the value. FILE and DIR are paths. A boolean
	// has none, and the flag alone means true.
	Value   string
	About   string // fits on its line
	Default string // as a user would write it
	// Choices are its values, if these are few.
	Choices    []string
	Interfaces bool // its values are the host's network interfaces
	Many       bool // the flag may be repeated; otherwise the last one counts
	Secret     bool // the value is never shown
	// Only are the commands that the flag belongs to; without one of them, the flag is an
	// error. An empty list allows all commands.
	Only []string
	Set  func(value string) error
}

// Help and Version are flags of every program. Given.Wants reads them.
var (
	Help    = Flag{Name: "help", Default: "false", About: "print this help", Set: checked(Bool)}
	Version = Flag{Name: "version", Default: "false", About: "print the version", Set: checked(Bool)}
)

// In returns the flag in a group of the help.
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

// Variable returns the name of the flag's variable, without a prefix.
func (f Flag) Variable() string {
	return strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
}

// about returns what the flag does, and its command if it has only one.
func (f Flag) about() string {
	if len(f.Only) == 1 {
		return f.Only[0] + ": " + f.About
	}
	return f.About
}

// isFor reports whether a command accepts the flag; "" is the program without a command.
func (f Flag) isFor(command string) bool { return len(f.Only) == 0 || slices.Contains(f.Only, command) }

func (f Flag) isBool() bool { return f.Value == "" }

// hasDefault reports whether the help shows the flag's default.
func (f Flag) hasDefault() bool { return f.Default != "" && f.Default != "false" }

// Find returns the flag with a name.
func (p Program) Find(name string) (Flag, bool) {
	i := slices.IndexFunc(p.Flags, func(f Flag) bool { return f.Name == name })
	if i < 0 {
		return Flag{}, false
	}
	return p.Flags[i], true
}

// nearest returns the most similar flag, if name is probably a typo of it.
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

// command returns the command with a name.
func (p Program) command(name string) (Command, bool) {
	i := slices.IndexFunc(p.Commands, func(c Command) bool { return c.Name == name })
	if i < 0 || name == "" {
		return Command{}, false
	}
	return p.Commands[i], true
}

// seeHelp returns the fix if there is no better one.
func (p Program) seeHelp() string { return "see " + p.Name + " --help" }
