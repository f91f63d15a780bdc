// Package etcdflags has the flags by which a program finds its etcd. Every program that uses
// etcd has the same flags, and accepts the same URLs and names.
package etcdflags

import (
	"strings"

	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/subnet/etcd"
)

// Etcd holds the values of the flags.
type Etcd struct {
	// Endpoints are http or https URLs of a host and a port, or unix or unixs URLs of a
	// path.
	Endpoints []string
	// Prefix is clean: a key is Prefix, a slash and the rest, as for flannel.
	Prefix                    string
	CAFile, CertFile, KeyFile string
	// Username comes with either Password or PasswordFile.
	Username     string
	Password     flags.Secret
	PasswordFile string
}

// Flags returns the flags, which set e, for a group of the help. A program may replace the
// About and the Default of a flag by a flag of the same name in own.
func (e *Etcd) Flags(group string, own ...flags.Flag) []flags.Flag {
	all := []flags.Flag{
		{Name: "etcd-endpoints", Value: "URLS", About: "etcd URLs, comma-separated",
			Set: flags.To(&e.Endpoints, endpoints)},
		{Name: "etcd-prefix", Value: "KEY", Default: "/coreos.com/network", About: "prefix of all keys in etcd",
			Set: flags.To(&e.Prefix, prefix)},
		{Name: "etcd-cafile", Value: "FILE", About: "CA certificates that verify etcd's certificate",
			Set: flags.To(&e.CAFile, flags.File)},
		{Name: "etcd-certfile", Value: "FILE", About: "client certificate for etcd",
			Set: flags.To(&e.CertFile, flags.File)},
		{Name: "etcd-keyfile", Value: "FILE", About: "private key of --etcd-certfile",
			Set: flags.To(&e.KeyFile, flags.File)},
		{Name: "etcd-username", Value: "NAME", About: "etcd user",
			Set: flags.To(&e.Username, username)},
		{Name: "etcd-password", Value: "TEXT", Secret: true, About: "password of the etcd user; prefer --etcd-password-file",
			Set: flags.To(&e.Password, password)},
		{Name: "etcd-password-file", Value: "FILE", About: "file with the password of the etcd user",
			Set: flags.To(&e.PasswordFile, flags.File)},
	}
	for i := range all {
		f := &all[i]
		f.Group = group
		for _, o := range own {
			if o.Name != f.Name {
				continue
			}
			if o.About != "" {
				f.About = o.About
			}
			if o.Default != "" {
				f.Default = o.Default
			}
		}
	}
	return all
}

// Finish adds a scheme to the URLs without one. Like flannel, it uses https if there is a
// client certificate.
func (e *Etcd) Finish() {
	scheme := "http:"
	if e.CertFile != "" {
		scheme = "https:"
	}
	for i, u := range e.Endpoints {
		if strings.HasPrefix(u, "//") {
			e.Endpoints[i] = scheme + u
		}
	}
}

// Check rejects flags that conflict or need another one. name returns a flag's name for the
// error.
func (e Etcd) Check(name func(flag string) string) error {
	if err := e.Options(name).Check(); err != nil {
		return &flags.Error{Why: err.Error()}
	}
	return nil
}

// Options returns the options of a store. name returns a flag's name for the store's errors.
func (e Etcd) Options(name func(flag string) string) etcd.Options {
	return etcd.Options{
		Endpoints: e.Endpoints, Prefix: e.Prefix, CertFile: e.CertFile, KeyFile: e.KeyFile, CAFile: e.CAFile,
		Username: e.Username, Password: e.Password.Reveal(), PasswordFile: e.PasswordFile,
		Names: etcd.Names{
			Endpoints: name("etcd-endpoints"), CertFile: name("etcd-certfile"), KeyFile: name("etcd-keyfile"), CAFile: name("etcd-cafile"),
			Username: name("etcd-username"), Password: name("etcd-password"), PasswordFile: name("etcd-password-file"),
		},
	}
}
