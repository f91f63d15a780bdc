package options

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/etcdflags"
	"github.com/tulle-net/tulle/subnet"
)

// FuzzParse puts a secret among arguments and variables of any kind. Both are given
// one per line; at is the position of the secret among the arguments.
func FuzzParse(f *testing.F) {
	f.Add("", "", uint(0))
	f.Add("--etcd-username=u", "PATH=/", uint(1))
	f.Add("--iface\neth0\n-v\n2", "TULLED_ETCD_USERNAME=u\nFLANNELD_IFACE=x", uint(1))
	f.Add("check-config\n--\n-", "", uint(3))
	f.Add("--etcd-embedded\n--network=10.5.0.0/16,fd00:5::/48\n--etcd-listen=https://[::]:2379", "", uint(1))
	f.Add("--etcd-endpoints=h:1,https://[::1]:2,unix:///s", "TULLED_PORT=tcp://h:1", uint(0))
	f.Add("--subnet-lease-ttl=3m\n--subnet-lease-renew-margin=2", "TULLED_NONE=1", uint(9))
	f.Add("-vmodule=a=1\n--log_backtrace_at=a.go:1\n--iface-regex=^(", "FLANNELD_NONE=1", uint(0))
	for name, s := range samples {
		f.Add("--"+name+"="+s.value+"\n"+strings.Join(s.with, "\n"), "", uint(0))
	}
	f.Fuzz(func(t *testing.T, line, environment string, at uint) {
		given := strings.Split(line, "\n")
		// The text may contain it as a value that is no secret.
		if strings.Contains(line+environment, "hunter") || strings.Contains(line+environment, hex) {
			return
		}
		for _, secret := range [][]string{
			nil, {"--etcd-password", marker}, {"-etcd-password=" + marker}, {"--etcd-endpoints=https://root:" + marker + "@h:1"},
		} {
			args := slices.Insert(slices.Clone(given), int(at%uint(len(given)+1)), secret...)
			for _, environ := range [][]string{strings.Split(environment, "\n"), append(strings.Split(environment, "\n"), "TULLED_ETCD_PASSWORD="+marker)} {
				o, err := Parse(args, environ, backends)
				if again, errAgain := Parse(args, environ, backends); !reflect.DeepEqual(o, again) || !reflect.DeepEqual(err, errAgain) {
					t.Fatalf("%q %q: got %#v and %#v, %v and %v", args, environ, o, again, err, errAgain)
				}
				if all := printed(o, err); shows(all) {
					t.Fatalf("%q %q is shown:\n%s", args, environ, all)
				}
				if err != nil {
					if !reflect.DeepEqual(o, Options{}) {
						t.Fatalf("%q %q: got %v and %#v", args, environ, err, o)
					}
					continue
				}
				good(t, o)
			}
		}
	})
}

// good checks what all Options of a daemon must meet.
func good(t *testing.T, o Options) {
	t.Helper()
	if o.Command != Run {
		return
	}
	if o.RenewMargin <= 0 || o.RenewMargin >= o.LeaseTTL {
		t.Errorf("a margin of %s with leases for %s", o.RenewMargin, o.LeaseTTL)
	}
	if o.Embedded.On == (len(o.Etcd.Endpoints) > 0) {
		t.Errorf("endpoints are %q, and embedded is %t", o.Etcd.Endpoints, o.Embedded.On)
	}
	for _, e := range o.Etcd.Endpoints {
		again, err := Parse([]string{"--etcd-endpoints=" + e}, nil, backends)
		if err != nil || !slices.Equal(again.Etcd.Endpoints, []string{e}) {
			t.Errorf("the endpoint %q reads as %q, %v", e, again.Etcd.Endpoints, err)
		}
	}
	if o.Embedded.On && !strings.HasPrefix(o.Embedded.Listen, "unix") && !etcdflags.Loopback(o.Embedded.Listen) && (!strings.HasPrefix(o.Embedded.Listen, "https://") || o.Etcd.CertFile == "") {
		t.Errorf("it serves at %q", o.Embedded.Listen)
	}
	if (o.Etcd.CertFile == "") != (o.Etcd.KeyFile == "") {
		t.Errorf("certificate %q, key %q", o.Etcd.CertFile, o.Etcd.KeyFile)
	}
	if o.Etcd.Username == "" && (o.Etcd.Password.Reveal() != "" || o.Etcd.PasswordFile != "") {
		t.Error("a password without a user")
	}
	if seed := o.Seed(); seed != "" {
		if _, err := subnet.ParseConfig([]byte(seed)); err != nil {
			t.Error(err)
		}
	}
	if o.SubnetFile == "" || o.StateDir == "" || o.Etcd.Prefix == "" {
		t.Errorf("something is empty: %#v", o)
	}
}
