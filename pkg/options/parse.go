package options

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Parse reads a command line, without the program's name, and an environment
// as of os.Environ. A flag beats a variable, and TULLED_X beats FLANNELD_X. The
// error is an *Error, and then there are no Options.
func Parse(args, environ []string) (Options, error) {
	given, words, err := commandLine(args)
	if err != nil {
		return Options{}, err
	}
	warnings, unknown := given.addVariables(environ)

	var o Options
	for name, c := range map[string]Command{helpFlag: ShowHelp, versionFlag: ShowVersion} {
		// Who needs help gets it, whatever else is wrong.
		if wanted, err := truth(given.last(name)); err == nil && wanted {
			o.Command = max(o.Command, c)
		}
	}
	if o.Command != Run {
		return o, nil
	}
	if err := o.command(words); err != nil {
		return Options{}, err
	}
	if unknown != nil {
		return Options{}, unknown
	}
	o.Warnings = warnings
	for _, f := range table {
		if err := given.apply(f, &o); err != nil {
			return Options{}, err
		}
	}
	if err := o.checkKube(given, environ); err != nil {
		return Options{}, err
	}
	if err := o.check(given); err != nil {
		return Options{}, err
	}
	return o, nil
}

// told are the values of one flag, in order, and where they come from.
type told struct {
	from   string // --iface or TULLED_IFACE
	values []string
}

// givens has what was told, by flag.
type givens map[string]told

// last is the last value of a flag, or "".
func (g givens) last(name string) string {
	values := g[name].values
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// has reports whether a flag was given a value that is not empty.
func (g givens) has(name string) bool { return strings.Join(g[name].values, "") != "" }

// from returns how a flag was given, or how to give it.
func (g givens) from(name string) string {
	if t, ok := g[name]; ok {
		return t.from
	}
	f, _ := find(name)
	return f.written()
}

// apply sets f to its given value, or to its default.
func (g givens) apply(f flag, o *Options) error {
	t, given := g[f.name]
	if !given && f.fallback != "" {
		return f.set(o, f.fallback)
	}
	if !f.many && given {
		t.values = t.values[len(t.values)-1:]
	}
	for _, value := range t.values {
		o.Given = append(o.Given, t.from+"="+f.show(value))
		switch {
		case value == "" && f.fallback == "":
			// That is how scripts leave a flag out.
			continue
		case value == "":
			return &Error{Flag: t.from, Why: "empty", Fix: "leave it out for the default " + f.fallback}
		}
		if err := f.set(o, value); err != nil {
			return at(t.from, err, f.secret)
		}
	}
	return nil
}

// show returns a value as Given has it: quoted where a shell needs that.
func (f flag) show(value string) string {
	if f.secret {
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

// command sets the command that the arguments beside the flags name.
func (o *Options) command(words []string) error {
	if len(words) == 0 {
		return nil
	}
	name, rest := words[0], words[1:]
	switch name {
	case "check-config":
		o.Command = CheckConfig
		if len(rest) > 0 {
			o.ConfigFile, rest = rest[0], rest[1:]
		}
		if o.ConfigFile == "-" {
			o.ConfigFile = ""
		}
		if strings.HasPrefix(o.ConfigFile, "-") {
			return &Error{Why: "the name of the file to check begins with a dash", Fix: "write ./ before it"}
		}
	case "bugreport":
		o.Command = BugReport
		if len(rest) > 0 {
			o.ReportFile, rest = rest[0], rest[1:]
		}
	case "install-cni":
		o.Command, o.Plugins.To = InstallCNI, "/opt/cni/bin"
		if len(rest) > 0 {
			var err error
			if o.Plugins.To, err = directory(rest[0]); err != nil {
				return at("install-cni", err, false)
			}
			rest = rest[1:]
		}
	case "explain":
		o.Command = Explain
		if len(rest) == 0 {
			return &Error{Why: "explain needs an IP address", Fix: "for example: tulled explain 10.5.34.2"}
		}
		var err error
		if o.Address, err = netip.ParseAddr(rest[0]); err != nil || o.Address.Zone() != "" {
			return &Error{Why: fmt.Sprintf("%.60q is not an IP address", rest[0]), Fix: "for example: tulled explain 10.5.34.2"}
		}
		o.Address, rest = o.Address.Unmap(), rest[1:]
	case "completion":
		if len(rest) == 0 || !slices.Contains(Shells(), rest[0]) {
			return &Error{Why: "completion needs a shell", Fix: "use one of " + strings.Join(Shells(), ", ")}
		}
		o.Command, o.Shell, rest = ShowCompletion, rest[0], rest[1:]
	default:
		known, ok := plainCommands[name]
		if !ok {
			return stray(1, name)
		}
		o.Command = known
	}
	if len(rest) > 0 {
		return stray(len(words)-len(rest)+1, rest[0])
	}
	return nil
}

// plainCommands are the commands without arguments.
var plainCommands = map[string]Command{"cleanup": CleanUp, "leases": Leases, "status": Status, "peers": Peers, "man": ShowManPage, "version": ShowVersion}

// stray refuses an argument that no command takes. It shows only what looks like a
// command or a boolean: anything else may be the second half of a password.
func stray(position int, word string) error {
	commands := append(slices.Sorted(maps.Keys(plainCommands)), "bugreport", "check-config", "completion", "explain", "install-cni", "--help")
	if _, err := truth(word); err == nil {
		return &Error{Why: fmt.Sprintf("unexpected argument %q", word), Fix: "join a boolean to its flag, as in --ip-masq=false"}
	}
	if near := nearest(word, commands); near != "" {
		return &Error{Why: fmt.Sprintf("unexpected argument %q", word), Fix: didYouMean(strconv.Quote(near), "")}
	}
	return &Error{Why: fmt.Sprintf("unexpected argument %d, not counting flags", position), Fix: "quote a value with spaces, and see tulled --help"}
}
