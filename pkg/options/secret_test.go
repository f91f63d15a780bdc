package options

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/etcdflags"
)

const marker = "hunter2zq"

// printed returns everything that could be printed of what Parse returned.
func printed(o Options, err error) string {
	var b strings.Builder
	type inside struct{ o Options }
	for _, v := range []any{o, &o, o.Etcd, inside{o}, &inside{o}, []Options{o}, o.Etcd.Password, &o.Etcd.Password, err} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&b, verb+"\n", v)
		}
	}
	text, _ := json.Marshal(o)
	fmt.Fprintf(&b, "%s\n%q\n%q\n%s\n", text, o.Given, o.Warnings, o)
	return b.String()
}

// hex is how %x prints the marker.
var hex = fmt.Sprintf("%x", marker)

func shows(output string) bool {
	return strings.Contains(output, marker) || strings.Contains(output, hex)
}

func TestSecretsStaySecret(t *testing.T) {
	for _, c := range []struct {
		args, environ []string
		good          bool
	}{
		{args: []string{"--etcd-username=u", "--etcd-password=" + marker}, good: true},
		{args: []string{"--etcd-username=u", "-etcd-password", marker}, good: true},
		{args: []string{"--etcd-username=u", "--etcd-password", "--" + marker}, good: true},
		{args: []string{"--etcd-username=u", "--etcd-password=" + marker, "--etcd-password=x"}, good: true},
		{args: []string{"--etcd-username=u"}, environ: []string{"TULLED_ETCD_PASSWORD=" + marker}, good: true},
		{args: []string{"--etcd-username=u"}, environ: []string{"FLANNELD_ETCD_PASSWORD=" + marker}, good: true},
		{args: []string{"--etcd-username=u", "--etcd-password=x"}, environ: []string{"TULLED_ETCD_PASSWORD=" + marker}, good: true},
		{environ: []string{"FLANNELD_ETCD_PASWORD=" + marker}, good: true},
		{environ: []string{"FLANNELD_ETCD_PASSWORD" + marker + "=x"}, good: true},

		{args: []string{"--etcd-password=" + marker}},
		{args: []string{"--etcd-password=" + marker, "--v=x"}},
		{args: []string{"--etcd-password", "two words", marker}},
		{args: []string{"--etcd-password", "one", marker}},
		{args: []string{"--etcd-password=", marker}},
		{args: []string{"--etcd-pasword=" + marker}},
		{args: []string{"--etcd-pasword", marker}},
		{args: []string{"--etcd-password" + marker}},
		{args: []string{"--etcd-password:" + marker}},
		{args: []string{"--iface", "--etcd-password=" + marker}},
		{args: []string{"--iface", "--etcd-pasword=" + marker}},
		{args: []string{"check-config", "--", "--etcd-password=" + marker}},
		{args: []string{"--etcd-username=root:" + marker}},
		{args: []string{"--=" + marker}},
		{args: []string{marker}},
		{args: []string{"check-config", "f", marker}},
		{environ: []string{"TULLED_ETCD_PASWORD=" + marker}},
		{environ: []string{"TULLED_ETCD_PASSWORD" + marker + "=x"}},
		{environ: []string{"TULLED_ETCD_PASSWORD_" + marker + "=x"}},
		{args: []string{"--etcd-endpoints=http://root:" + marker + "@h:1"}},
		{args: []string{"--etcd-endpoints=http://h:1,http://root:a," + marker + "@h:1"}},
		{args: []string{"--etcd-endpoints=http://root:" + marker + ",a@h:1"}},
		{args: []string{"--etcd-endpoints=root:" + marker + "@h:1"}},
		{args: []string{"--etcd-endpoints=http://root:" + marker}},
		{args: []string{"--etcd-endpoints=root:" + marker}},
		{args: []string{"--etcd-endpoints=http://h:1?p=" + marker}},
		{args: []string{"--etcd-endpoints=http://h:1#" + marker}},
		{args: []string{"--etcd-embedded", "--etcd-listen=http://root:" + marker + "@127.0.0.1:1"}},
		{args: []string{"--kube-api-url=https://root:" + marker + "@h"}},
		{args: []string{"--kube-api-url=https://h?token=" + marker}},
		{environ: []string{"FLANNELD_ETCD_ENDPOINTS=http://root:" + marker + "@h:1"}},
	} {
		o, err := Parse(c.args, c.environ, backends)
		if (err == nil) != c.good {
			t.Errorf("%q %q: %v", c.args, c.environ, err)
		}
		if shows(printed(o, err)) {
			t.Errorf("%q %q is shown:\n%s", c.args, c.environ, printed(o, err))
		}
	}
}

func TestSecretsOfACommandLine(t *testing.T) {
	for _, c := range []struct{ args, want []string }{
		{nil, nil},
		{[]string{"--etcd-username=u", "--v=1"}, nil},
		{[]string{"--etcd-password=a", "leases", "-etcd-password=b=c"}, []string{"a", "b=c"}},
		{[]string{"--etcd-password", "a", "-etcd-password", "--b"}, []string{"a", "--b"}},
		{[]string{"--etcd-password", "--etcd-password=b", "c"}, []string{"--etcd-password=b", "b"}},
		{[]string{"--etcd-password", "--etcd-password", "c"}, []string{"--etcd-password"}},
		{[]string{"--etcd-password="}, nil},
		{[]string{"--etcd-password"}, nil},
		{[]string{"--etcd-password-file=a", "--etcd-password-file", "b"}, nil},
	} {
		if got := Secrets(c.args); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, not %q", c.args, got, c.want)
		}
	}
}

// TestPrintedShows checks that TestSecretsStaySecret would find a secret.
func TestPrintedShows(t *testing.T) {
	for _, o := range []Options{{Etcd: etcdflags.Etcd{PasswordFile: marker}}, {Given: []string{marker}}, {Warnings: []string{marker}}} {
		if !shows(printed(o, nil)) {
			t.Errorf("%#v does not show", o)
		}
	}
}
