package etcd

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// TestErrorsUseTheCallersNames: errors call a setting what the caller calls it, and
// else by plain words.
func TestErrorsUseTheCallersNames(t *testing.T) {
	named := Names{CertFile: "--cert", KeyFile: "--key", CAFile: "--ca", Username: "--user", Password: "--secret", PasswordFile: "--secret-file"}
	for _, test := range []struct {
		Options
		want, words string
	}{
		{Options{CertFile: "c"}, "--cert: needs --key", "the certificate file: needs the key file"},
		{Options{KeyFile: "k"}, "--key: needs --cert", "the key file: needs the certificate file"},
		{Options{CertFile: "/none/c", KeyFile: "k"}, "--cert /none/c and --key k: ", "the certificate file /none/c and the key file k: "},
		{Options{CAFile: "/none/a"}, "--ca: open /none/a", "the CA file: open /none/a"},
		{Options{Password: "p"}, "--secret: needs --user", "the password: needs the user name"},
		{Options{PasswordFile: "f"}, "--secret-file: needs --user", "the password file: needs the user name"},
		{Options{Username: "u"}, "--user: needs --secret-file", "the user name: needs the password file"},
		{Options{Username: "u", Password: "p", PasswordFile: "f"}, "--secret: conflicts with --secret-file", "the password: conflicts with the password file"},
		{Options{Username: "u", PasswordFile: "/none/p"}, "--secret-file: open /none/p", "the password file: open /none/p"},
	} {
		o := test.Options
		if _, err := Open(o); err == nil || !strings.HasPrefix(err.Error(), test.words) {
			t.Errorf("without names: %v; want %q", err, test.words)
		}
		o.Names = named
		if _, err := Open(o); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%v; want %q", err, test.want)
		}
	}
	if _, words := reasonsFor(Names{Endpoints: "--urls"}).explain(errors.New("connection refused")); !strings.HasPrefix(words, "nothing listens at --urls;") {
		t.Error(words)
	}
	for name, is := range reflect.ValueOf(Names{}.orWords()).Fields() {
		if is.String() == "" {
			t.Errorf("no words stand for %s", name.Name)
		}
	}
}
