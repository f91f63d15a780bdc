package etcdprocess

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
)

// Settings say how an etcd of one member runs. They are comparable, so that a
// change shows.
type Settings struct {
	Dir string // holds its data; only root may open it
	// Listen is a URL for clients: http://127.0.0.1:2379, https, or unix and a
	// path.
	Listen string
	// CertFile and KeyFile are what it shows with https. It serves only clients
	// with a certificate of CAFile's, or any client if that is empty.
	CertFile, KeyFile, CAFile string
	Verbosity                 int // of its log
}

// Defaults are what holds where nothing else is said.
var Defaults = Settings{Dir: "/var/lib/tulle/etcd", Listen: "http://127.0.0.1:2379"}

// setting is one flag of tulle-etcd, which is a variable too.
type setting struct {
	name, value, about string
	field              func(*Settings) flag.Value
}

var settings = []setting{
	{"data-dir", "DIR", "folder for its data", text(func(s *Settings) *string { return &s.Dir })},
	{"listen", "URL", "where it serves clients", text(func(s *Settings) *string { return &s.Listen })},
	{"cafile", "FILE", "CA certificates that clients' must be signed by", text(func(s *Settings) *string { return &s.CAFile })},
	{"certfile", "FILE", "certificate to show to clients", text(func(s *Settings) *string { return &s.CertFile })},
	{"keyfile", "FILE", "private key of that certificate", text(func(s *Settings) *string { return &s.KeyFile })},
	{"v", "LEVEL", "log level; 1 adds etcd's warnings", func(s *Settings) flag.Value { return (*level)(&s.Verbosity) }},
}

// variable returns the name of the variable that stands for the flag.
func (s setting) variable() string {
	return "TULLE_ETCD_" + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

// text returns a flag of a field that takes any text.
func text(field func(*Settings) *string) func(*Settings) flag.Value {
	return func(s *Settings) flag.Value { return (*word)(field(s)) }
}

type word string

// String implements flag.Value.
func (w *word) String() string { return string(*w) }

// Set implements flag.Value.
func (w *word) Set(value string) error { *w = word(value); return nil }

type level int

// String implements flag.Value.
func (l *level) String() string { return strconv.Itoa(int(*l)) }

// Set implements flag.Value.
func (l *level) Set(value string) error {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return errors.New("not a whole number of 0 or more")
	}
	*l = level(n)
	return nil
}

// Parse reads tulle-etcd's flags and its variables, of which the flags win. It
// returns the words that are no flags.
func Parse(args, environ []string) (Settings, []string, error) {
	s := Defaults
	flags := flag.NewFlagSet("tulle-etcd", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	known := make(map[string]setting)
	for _, f := range settings {
		flags.Var(f.field(&s), f.name, f.about)
		known[f.variable()] = f
	}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		f, ok := known[name]
		if !ok || value == "" {
			continue
		}
		if err := f.field(&s).Set(value); err != nil {
			return Settings{}, nil, fmt.Errorf("%s is %q: %w", name, value, err)
		}
	}
	var words []string
	for rest := args; len(rest) > 0; {
		if err := flags.Parse(rest); err != nil {
			return Settings{}, nil, err
		}
		if rest = flags.Args(); len(rest) > 0 {
			words, rest = append(words, rest[0]), rest[1:]
		}
	}
	if !filepath.IsAbs(s.Dir) {
		return Settings{}, nil, fmt.Errorf("--data-dir is %q: not an absolute path; write one like %s", s.Dir, Defaults.Dir)
	}
	if strings.Contains(s.Listen, "@") { // which nothing shows, for it may be a password
		return Settings{}, nil, errors.New("--listen: a URL with a user or a password in it; leave them out")
	}
	s.Dir = filepath.Clean(s.Dir)
	return s, words, nil
}

// Help returns a line for each flag.
func Help() string {
	var b strings.Builder
	defaults := Defaults
	for _, f := range settings {
		dashes := "--"
		if len(f.name) == 1 {
			dashes = "-"
		}
		fmt.Fprintf(&b, "  %-18s %s", dashes+f.name+" "+f.value, f.about)
		if d := f.field(&defaults).String(); d != "" {
			fmt.Fprintf(&b, " (default %s)", d)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Arguments returns the settings as flags.
func (s Settings) Arguments() []string {
	var args []string
	for _, f := range settings {
		if value := f.field(&s).String(); value != "" {
			args = append(args, "--"+f.name+"="+value)
		}
	}
	return args
}

// Environment returns the settings as a file of variables that systemd reads.
func (s Settings) Environment() string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", "$", `\$`)
	var b strings.Builder
	for _, f := range settings {
		if value := f.field(&s).String(); value != "" {
			fmt.Fprintf(&b, "%s=\"%s\"\n", f.variable(), escape.Replace(value))
		}
	}
	return b.String()
}

// Endpoint returns the URL at which clients on this host find it: on loopback,
// where it listens at all addresses.
func (s Settings) Endpoint() string {
	u, err := url.Parse(s.Listen)
	if err != nil {
		return s.Listen
	}
	if a, err := netip.ParseAddr(u.Hostname()); u.Port() != "" && (u.Hostname() == "" || err == nil && a.IsUnspecified()) {
		u.Host = "127.0.0.1:" + u.Port()
	}
	return u.String()
}
