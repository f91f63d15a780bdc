package etcdprocess

import (
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tulle-net/tulle/pkg/companion"
	"github.com/tulle-net/tulle/pkg/flags"
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
	AnyClient                 bool // beyond loopback, too
	Verbosity                 int  // of its log
}

// Defaults are what holds where nothing else is said.
var Defaults = Settings{Dir: "/var/lib/tulle/etcd", Listen: "http://127.0.0.1:2379"}

// setting is one flag of tulle-etcd, which is a variable too.
type setting struct {
	flags.Flag
	value string // its present one
}

// Prefix begins the variables that stand for the flags.
const Prefix = "TULLE_ETCD_"

// table returns the settings, with flags that set them.
func (s *Settings) table() []setting {
	return []setting{
		{flags.Flag{Name: "data-dir", Value: "DIR", Default: Defaults.Dir, About: "folder for its data", Set: flags.To(&s.Dir, folder)}, s.Dir},
		{flags.Flag{Name: "listen", Value: "URL", Default: Defaults.Listen, About: "where it serves clients", Set: flags.To(&s.Listen, listen)}, s.Listen},
		{flags.Flag{Name: "cafile", Value: "FILE", About: "CA certificates that clients' must be signed by", Set: flags.To(&s.CAFile, flags.File)}, s.CAFile},
		{flags.Flag{Name: "certfile", Value: "FILE", About: "certificate to show to clients", Set: flags.To(&s.CertFile, flags.File)}, s.CertFile},
		{flags.Flag{Name: "keyfile", Value: "FILE", About: "private key of that certificate", Set: flags.To(&s.KeyFile, flags.File)}, s.KeyFile},
		{flags.Flag{Name: "without-client-certs", Default: "false", About: "beyond loopback, let any client in; unsafe", Set: flags.To(&s.AnyClient, flags.Bool)}, ifTrue(s.AnyClient)},
		{flags.LogLevel(&s.Verbosity, "log level; 1 adds etcd's warnings"), strconv.Itoa(s.Verbosity)},
	}
}

// ifTrue returns a flag's value, "" for what holds without it.
func ifTrue(b bool) string {
	if b {
		return "true"
	}
	return ""
}

// Flags returns the flags that set s, below a heading of the help.
func (s *Settings) Flags(group string) []flags.Flag {
	var all []flags.Flag
	for _, row := range s.table() {
		all = append(all, row.Flag.In(group))
	}
	return all
}

// folder reads an absolute path, so that two processes mean the same folder.
func folder(value string) (string, error) {
	if !filepath.IsAbs(value) {
		return "", flags.Refuse(value, "not an absolute path", "write one like "+Defaults.Dir)
	}
	return flags.Folder(filepath.Clean(value))
}

// listen reads a URL. The server checks the rest of it.
func listen(value string) (string, error) {
	if strings.Contains(value, "@") { // which nothing shows, for it may be a password
		return "", flags.Refuse("", "a URL with a user or a password in it", "leave them out")
	}
	return value, nil
}

// Arguments returns the settings as flags.
func (s Settings) Arguments() []string {
	var args []string
	for _, row := range s.table() {
		if row.value != "" {
			args = append(args, "--"+row.Name+"="+row.value)
		}
	}
	return args
}

// Environment returns the settings as a file of variables that systemd reads.
func (s Settings) Environment() string {
	return companion.Variables(Prefix, func(yield func(variable, value string) bool) {
		for _, row := range s.table() {
			if !yield(row.Variable(), row.value) {
				return
			}
		}
	})
}

// Spec returns how the program is started with these settings. Errors call the setting
// that asks for it by.
func (s Settings) Spec(by string) companion.Spec {
	return companion.Spec{
		Program: "tulle-etcd", Unit: "tulle-etcd.service", Dir: s.Dir, By: by,
		Settings: companion.SettingsOf(s), Arguments: s.Arguments(), Environment: s.Environment(),
	}
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
