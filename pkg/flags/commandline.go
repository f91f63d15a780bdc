package flags

import (
	"errors"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// commandLine splits args into flags and words.
func (g *Given) commandLine(args []string) error {
	args, err := g.program.widen(args)
	if err != nil {
		return err
	}
	set := pflag.NewFlagSet(g.program.Name, pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	for _, f := range g.program.Flags {
		p := set.VarPF(recorder{g, f}, f.Name, "", f.About)
		if f.isBool() {
			p.NoOptDefVal = "true"
		}
	}
	if err := set.Parse(args); err != nil {
		return g.program.explain(err)
	}
	g.words = set.Args()
	return nil
}

// recorder keeps values as they were written. Apply checks them later, so pflag's errors
// never show them.
type recorder struct {
	to   *Given
	flag Flag
}

func (r recorder) Set(value string) error {
	name := r.flag.Name
	r.to.flags[name] = values{r.flag.Written(), append(r.to.flags[name].all, value)}
	return nil
}

func (r recorder) String() string { return "" }
func (r recorder) Type() string   { return "" }

// widen rewrites -flag as --flag for pflag: like flannel, programs take both, and no grouped
// letters. It refuses a flag without a value in front of another flag. That one may be a
// password, which would otherwise be shown as the value.
func (p Program) widen(args []string) ([]string, error) {
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
			arg = Help.Written()
		}
		wide = append(wide, arg)
		f, ok := p.Find(strings.TrimPrefix(arg, "--"))
		if !ok || !strings.HasPrefix(arg, "--") || f.isBool() || len(args) == 0 {
			continue
		}
		if p.missing(f, args[0]) {
			return nil, noValue(f)
		}
		wide, args = append(wide, args[0]), args[1:]
	}
	return wide, nil
}

// missing reports whether next is a flag instead of the value of f. A password may begin
// with a dash.
func (p Program) missing(f Flag, next string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(next, "-"), "=")
	_, known := p.Find(name)
	return len(next) > 1 && next[0] == '-' && (known || !f.Secret)
}

func noValue(f Flag) error {
	return &Error{Flag: f.Written(), Why: "needs a value, as in " + f.Written() + "=" + f.Value}
}

// explain rewrites pflag's errors so that they show no value.
func (p Program) explain(err error) error {
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		name, near := unknown.GetSpecifiedName(), ""
		if f, ok := p.nearest(name); ok {
			near = f.Written()
		}
		return &Error{
			Flag: shownName("--" + name), Why: "unknown flag",
			Fix: DidYouMean(near, p.seeHelp()),
		}
	case errors.As(err, &bare):
		if f, ok := p.Find(bare.GetSpecifiedName()); ok {
			return noValue(f)
		}
	}
	return &Error{Why: "dashes without a flag name", Fix: p.seeHelp()}
}
