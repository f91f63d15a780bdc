package options

import (
	"errors"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// commandLine sorts args into flags and words.
func commandLine(args []string) (givens, []string, error) {
	args, err := widen(args)
	if err != nil {
		return nil, nil, err
	}
	g := make(givens)
	set := pflag.NewFlagSet("tulled", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	for _, f := range table {
		p := set.VarPF(recorder{g, f}, f.name, "", f.about)
		if f.truth() {
			p.NoOptDefVal = "true"
		}
	}
	if err := set.Parse(args); err != nil {
		return nil, nil, explain(err)
	}
	return g, set.Args(), nil
}

// recorder keeps values as they were written. That they are checked later, with
// those from the environment, keeps them out of pflag's errors.
type recorder struct {
	to   givens
	flag flag
}

func (r recorder) Set(value string) error {
	r.to[r.flag.name] = told{r.flag.written(), append(r.to[r.flag.name].values, value)}
	return nil
}

func (r recorder) String() string { return "" }
func (r recorder) Type() string   { return "" }

// widen writes -flag as --flag, as pflag wants it. Flannel takes both, and no
// letters in a row. A flag whose value was forgotten must not take the next
// flag for it: that may be a password, which would be shown then.
func widen(args []string) ([]string, error) {
	var wide []string
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			return append(append(wide, arg), args...), nil
		}
		if len(arg) > 1 && arg[0] == '-' && arg[1] != '-' {
			arg = "-" + arg
		}
		if arg == "--h" {
			arg = "--" + helpFlag
		}
		wide = append(wide, arg)
		f, ok := find(strings.TrimPrefix(arg, "--"))
		if !ok || !strings.HasPrefix(arg, "--") || f.truth() || len(args) == 0 {
			continue
		}
		if missing(f, args[0]) {
			return nil, noValue(f)
		}
		wide, args = append(wide, args[0]), args[1:]
	}
	return wide, nil
}

// missing reports whether next is a flag rather than the value of f. A password
// may begin with a dash.
func missing(f flag, next string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(next, "-"), "=")
	_, known := find(name)
	return len(next) > 1 && next[0] == '-' && (known || !f.secret)
}

func noValue(f flag) error {
	return &Error{Flag: f.written(), Why: "needs a value, as in " + f.written() + "=" + f.value}
}

// explain rewords pflag's errors, so that they show no value.
func explain(err error) error {
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		name, near := unknown.GetSpecifiedName(), ""
		if f, ok := find(nearest(name, names())); ok {
			near = f.written()
		}
		return &Error{
			Flag: shownName("--" + name), Why: "unknown flag",
			Fix: didYouMean(near, "see tulled --help"),
		}
	case errors.As(err, &bare):
		if f, ok := find(bare.GetSpecifiedName()); ok {
			return noValue(f)
		}
	}
	return &Error{Why: "dashes without a flag name", Fix: "see tulled --help"}
}
