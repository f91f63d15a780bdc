package flags

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Given holds what a command line and an environment give. Apply sets it.
type Given struct {
	// Written are the flags and variables as a user would write them, without secrets.
	// Apply fills it.
	Written []string
	// Warnings are warnings for the log.
	Warnings []string

	program Program
	words   []string
	flags   map[string]values
	unknown error // of a variable
}

// values are the values of one flag, in order, and where they come from.
type values struct {
	from string // --iface or TULLED_IFACE
	all  []string
}

// Read reads a command line, without the program's name, and an environment from
// os.Environ. A flag overrides a variable. The error is an *Error.
func (p Program) Read(args, environ []string) (*Given, error) {
	g := &Given{program: p, flags: make(map[string]values)}
	if err := g.commandLine(args); err != nil {
		return nil, err
	}
	g.addVariables(environ)
	return g, nil
}

// Wants reports whether a boolean flag is true, whatever else is wrong: --help always works.
func (g *Given) Wants(name string) bool {
	wanted, err := Bool(g.Last(name))
	return err == nil && wanted
}

// Last returns the last value of a flag, or "".
func (g *Given) Last(name string) string {
	all := g.flags[name].all
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// Has reports whether a flag has a value that is not empty.
func (g *Given) Has(name string) bool { return strings.Join(g.flags[name].all, "") != "" }

// In returns the names of a group's flags that have a value.
func (g *Given) In(group string) (names []string) {
	for _, f := range g.program.Flags {
		if f.Group == group && g.Has(f.Name) {
			names = append(names, f.Name)
		}
	}
	return names
}

// From returns the flag or variable that gave a flag its value, or how to give it one.
func (g *Given) From(name string) string {
	if v, ok := g.flags[name]; ok {
		return v.from
	}
	f, _ := g.program.Find(name)
	return f.Written()
}

// Apply sets the command, and every flag to its value or its default. The error
// is an *Error.
func (g *Given) Apply() error {
	if err := g.applyCommand(); err != nil {
		return err
	}
	if g.unknown != nil {
		return g.unknown
	}
	for _, f := range g.program.Flags {
		if err := g.apply(f); err != nil {
			return err
		}
	}
	return nil
}

func (g *Given) apply(f Flag) error {
	v, given := g.flags[f.Name]
	if !f.isFor(g.Command()) {
		if given && v.from == f.Written() {
			return &Error{
				Flag: v.from, Why: "belongs to " + g.program.Name + " " + strings.Join(f.Only, ", "),
				Fix: fmt.Sprintf("add the command, as in %s %s %s", g.program.Name, f.Only[0], v.from),
			}
		}
		given, v.all = false, nil // a variable may be set for all commands
	}
	if !given && f.Default != "" {
		return f.Set(f.Default)
	}
	if !f.Many && given {
		v.all = v.all[len(v.all)-1:]
	}
	for _, value := range v.all {
		g.Written = append(g.Written, v.from+"="+f.show(value))
		switch {
		case value == "" && f.Default == "":
			// Scripts leave a flag out by an empty value.
			continue
		case value == "":
			return &Error{Flag: v.from, Why: "empty", Fix: "remove it for the default " + f.Default}
		}
		if err := f.Set(value); err != nil {
			return At(v.from, err, f.Secret)
		}
	}
	return nil
}

// show returns a value for Written: quoted if a shell needs that.
func (f Flag) show(value string) string {
	if f.Secret {
		return hidden
	}
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./:,=[]%+|", r)
	}
	if strings.ContainsFunc(value, func(r rune) bool { return !plain(r) }) {
		return strconv.Quote(value)
	}
	return value
}

// Command returns the command that the arguments name, or "".
func (g *Given) Command() string {
	if len(g.words) == 0 {
		return ""
	}
	c, _ := g.program.command(g.words[0])
	return c.Name
}

// applyCommand sets the command that the words name.
func (g *Given) applyCommand() error {
	if len(g.words) == 0 {
		return nil
	}
	c, exists := g.program.command(g.words[0])
	if !exists {
		return g.stray(0)
	}
	taken, word := 1, ""
	if c.Value != "" && len(g.words) > 1 {
		taken, word = 2, g.words[1]
	}
	if err := c.Set(word); err != nil {
		return err
	}
	if len(g.words) > taken {
		return g.stray(taken)
	}
	return nil
}

// stray refuses a word that no command takes. It shows the word only if it looks like a
// command or a boolean: any other word may be the second half of a password.
func (g *Given) stray(index int) error {
	word, what := g.words[index], "unexpected argument"
	if index == 0 {
		what = "unknown command"
	}
	candidates := []string{"--" + Help.Name}
	for _, c := range g.program.named() {
		candidates = append(candidates, c.Name)
	}
	slices.Sort(candidates)
	if _, err := Bool(word); err == nil {
		return &Error{Why: fmt.Sprintf("unexpected argument %q", word), Fix: "join a boolean to its flag, as in " + g.aBool() + "=false"}
	}
	if near := Nearest(word, candidates); near != "" {
		return &Error{Why: fmt.Sprintf("%s %q", what, word), Fix: DidYouMean(strconv.Quote(near), "")}
	}
	if index == 0 {
		return &Error{Why: "unknown command in argument 1, not counting flags", Fix: "quote a value with spaces, and " + g.program.seeHelp()}
	}
	return &Error{Why: fmt.Sprintf("unexpected argument %d, not counting flags", index+1), Fix: "quote a value with spaces, and " + g.program.seeHelp()}
}

// aBool returns a boolean flag of the command line, as an example.
func (g *Given) aBool() string {
	for _, f := range g.program.Flags {
		if f.isBool() && g.Has(f.Name) {
			return f.Written()
		}
	}
	return "--flag"
}
