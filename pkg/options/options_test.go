package options

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/etcdflags"
	"github.com/tulle-net/tulle/subnet"
)

func parse(t *testing.T, args, environ []string) Options {
	t.Helper()
	o, err := Parse(args, environ, backends)
	if err != nil {
		t.Fatalf("%q, %q: %v", args, environ, err)
	}
	return o
}

// TestDefaults checks the options without any setting.
func TestDefaults(t *testing.T) {
	want := Options{
		Etcd:       etcdflags.Etcd{Endpoints: []string{"http://127.0.0.1:2379"}, Prefix: "/coreos.com/network"},
		SubnetFile: "/run/flannel/subnet.env",
		StateDir:   "/var/lib/tulle", Plugins: Plugins{From: "/cni"}, StatusSocket: "/run/tulle/tulled.sock", Health: Health{Address: netip.MustParseAddr("127.0.0.1")}, Output: answer.Text,
		Probes:    Probes{5 * time.Second, 8479},
		Filtering: Filtering{Filter: FilterAuto, Forward: true, Resync: 5 * time.Second},
		LeaseTTL:  24 * time.Hour, RenewMargin: time.Hour,
	}
	for _, environ := range [][]string{nil, {"PATH=/bin", "TULLED_IFACE=", "FLANNELD_V=", "TULLED", "=x", "", "TULLEDX=1", "tulled_v=2"}} {
		if got := parse(t, nil, environ); !reflect.DeepEqual(got, want) {
			t.Errorf("%q\ngot  %#v\nwant %#v", environ, got, want)
		}
	}
}

// TestParse checks what each flag sets.
func TestParse(t *testing.T) {
	type edit = func(*Options)
	prefixes := func(four, six string) (p subnet.Pair[netip.Prefix]) {
		for f, s := range []string{four, six} {
			if s != "" {
				p[f] = netip.MustParsePrefix(s)
			}
		}
		return p
	}
	endpoints := func(urls ...string) edit { return func(o *Options) { o.Etcd.Endpoints = urls } }
	embedded := func(e Embedded) edit {
		return func(o *Options) { o.Etcd.Endpoints, o.Embedded = nil, e }
	}
	const loop = "http://127.0.0.1:2379"
	for _, c := range []struct {
		args string // separated by spaces
		want edit
	}{
		{"-iface eth0 --iface=192.0.2.7 -iface=", func(o *Options) { o.Uplink.Ifaces = []string{"eth0", "192.0.2.7"} }},
		{"--iface=a,b", func(o *Options) { o.Uplink.Ifaces = []string{"a,b"} }},
		{"-iface-regex=^eth[0-9]{1,2} -iface-regex ^wg", func(o *Options) { o.Uplink.IfaceRegexes = []string{"^eth[0-9]{1,2}", "^wg"} }},
		{"-iface-can-reach=192.0.2.1", func(o *Options) { o.Uplink.CanReach = netip.MustParseAddr("192.0.2.1") }},
		{"--public-ip=192.0.2.7 --public-ipv6 2001:db8::7", func(o *Options) {
			o.Uplink.PublicIP = subnet.Pair[netip.Addr]{netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")}
		}},
		{"--public-ip=::ffff:192.0.2.7", func(o *Options) { o.Uplink.PublicIP[subnet.IPv4] = netip.MustParseAddr("192.0.2.7") }},
		{"-v=2 --vmodule=peers=3,w*=4,", func(o *Options) { o.Verbosity, o.VModule = 2, "peers=3,w*=4," }},
		{"-v 2 -v 3", func(o *Options) { o.Verbosity = 3 }},
		{"--log_backtrace_at=peers.go:12", func(o *Options) { o.BacktraceAt = "peers.go:12" }},
		{"-ip-blackhole-route -ip-blackhole-route=false", func(*Options) {}},
		{"--ip-blackhole-route=T", func(o *Options) { o.BlackholeRoute = true }},
		{"--kube-subnet-mgr=false --version=false -help=0", func(*Options) {}},
		{"--subnet-lease-renew-margin=0x10", func(o *Options) { o.RenewMargin = 16 * time.Minute }},
		{"--subnet-lease-ttl=2m", func(o *Options) { o.LeaseTTL, o.RenewMargin = 2*time.Minute, time.Minute }},
		{"--subnet-lease-ttl=90m", func(o *Options) { o.LeaseTTL = 90 * time.Minute }},
		{"--subnet-lease-ttl=2m --subnet-lease-renew-margin=1", func(o *Options) { o.LeaseTTL, o.RenewMargin = 2*time.Minute, time.Minute }},
		{"--subnet-lease-renew-margin=1439", func(o *Options) { o.RenewMargin = 1439 * time.Minute }},
		{"--node-id=a --node-name=b.example --state-dir=/s/ --subnet-file=x/y --cni-conf-file=/c", func(o *Options) {
			o.Node, o.StateDir, o.SubnetFile, o.CNIConfFile = Node{"a", "b.example"}, "/s/", "x/y", "/c"
		}},
		{"--public-ip= --etcd-cafile= --etcd-password= --network= --etcd-listen=http://[::1]:1 --etcd-embedded", embedded(Embedded{On: true, Listen: "http://[::1]:1", Backend: "vxlan"})},

		{"--etcd-prefix=/a//b/", func(o *Options) { o.Etcd.Prefix = "/a/b" }},
		{"--etcd-prefix=a", func(o *Options) { o.Etcd.Prefix = "a" }},
		{"--etcd-endpoints=HTTPS://h:1/,http://[2001:db8::1]:2,unix:///s,unixs://r/s,", endpoints("https://h:1", "http://[2001:db8::1]:2", "unix:///s", "unixs://r/s")},
		{"--etcd-endpoints=http://[fe80::1%25eth0]:2379,[fe80::1%25eth0]:2379", endpoints("http://[fe80::1%25eth0]:2379", "http://[fe80::1%25eth0]:2379")},
		{"-etcd-endpoints=192.0.2.1:2379,etcd-1.example:2379", endpoints("http://192.0.2.1:2379", "http://etcd-1.example:2379")},
		{"-etcd-endpoints=h:1,http://h:2 --etcd-certfile=c --etcd-keyfile=k", func(o *Options) {
			o.Etcd.Endpoints, o.Etcd.CertFile, o.Etcd.KeyFile = []string{"https://h:1", "http://h:2"}, "c", "k"
		}},
		{"-etcd-endpoints=http://a:1 -etcd-endpoints=http://b:1", endpoints("http://b:1")},
		{"--etcd-username=root --etcd-password-file=p", func(o *Options) { o.Etcd.Username, o.Etcd.PasswordFile = "root", "p" }},

		{"--etcd-embedded", embedded(Embedded{On: true, Listen: loop, Backend: "vxlan"})},
		{"--etcd-embedded --etcd-listen=http://localhost:1", embedded(Embedded{On: true, Listen: "http://localhost:1", Backend: "vxlan"})},
		{"--etcd-embedded --etcd-listen=unix:///run/s", embedded(Embedded{On: true, Listen: "unix:///run/s", Backend: "vxlan"})},
		{"--etcd-embedded --etcd-listen=https://0.0.0.0:2379 --etcd-cafile=a --etcd-certfile=c --etcd-keyfile=k", func(o *Options) {
			embedded(Embedded{On: true, Listen: "https://0.0.0.0:2379", Backend: "vxlan"})(o)
			o.Etcd.CAFile, o.Etcd.CertFile, o.Etcd.KeyFile = "a", "c", "k"
		}},
		{"--etcd-embedded --network=10.5.1.2/16 --backend=host-gw", embedded(Embedded{true, loop, false, prefixes("10.5.0.0/16", ""), "host-gw"})},
		{"--etcd-embedded --network=fd00:5::/48 --network=10.5.0.0/16", embedded(Embedded{true, loop, false, prefixes("10.5.0.0/16", "fd00:5::/48"), "vxlan"})},
		{"--etcd-embedded --network=10.5.0.0/16,fd00:5::/48", embedded(Embedded{true, loop, false, prefixes("10.5.0.0/16", "fd00:5::/48"), "vxlan"})},

		{"check-config", func(o *Options) { o.Command = CheckConfig }},
		{"check-config -", func(o *Options) { o.Command = CheckConfig }},
		{"check-config f -v 3", func(o *Options) { o.Command, o.ConfigFile, o.Verbosity = CheckConfig, "f", 3 }},
		{"-v 3 -- check-config f", func(o *Options) { o.Command, o.ConfigFile, o.Verbosity = CheckConfig, "f", 3 }},
		{"leases --etcd-endpoints=h:1", func(o *Options) { o.Command, o.Etcd.Endpoints = Leases, []string{"http://h:1"} }},
		{"leases --etcd-embedded", func(o *Options) {
			embedded(Embedded{On: true, Listen: loop, Backend: "vxlan"})(o)
			o.Command, o.Etcd.Endpoints = Leases, []string{loop}
		}},
		{"version", func(o *Options) { o.Command = ShowVersion }},
	} {
		t.Run(c.args, func(t *testing.T) {
			want := parse(t, nil, nil)
			c.want(&want)
			got := parse(t, strings.Fields(c.args), nil)
			got.Given, got.Warnings = nil, nil
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %#v\nwant %#v", got, want)
			}
		})
	}
}

// TestHelpAndVersion checks that help and version work, whatever else is wrong on the
// command line.
func TestHelpAndVersion(t *testing.T) {
	for _, c := range []struct {
		args, environ []string
		want          Command
	}{
		{[]string{"--help"}, nil, ShowHelp},
		{[]string{"-h"}, nil, ShowHelp},
		{[]string{"--h"}, nil, ShowHelp},
		{[]string{"-help", "--version"}, nil, ShowHelp},
		{[]string{"--version"}, []string{"TULLED_NONE=1", "TULLED_V=x"}, ShowVersion},
		{[]string{"-version", "--v=x", "bogus"}, nil, ShowVersion},
		{nil, []string{"TULLED_HELP=true"}, ShowHelp},
		{nil, []string{"FLANNELD_VERSION=1"}, ShowVersion},
	} {
		if got := parse(t, c.args, c.environ); !reflect.DeepEqual(got, Options{Command: c.want}) {
			t.Errorf("%q %q: got %#v", c.args, c.environ, got)
		}
	}
}

// TestPrecedence checks that flags override TULLED variables, and these FLANNELD
// variables.
func TestPrecedence(t *testing.T) {
	for _, c := range []struct {
		args, environ []string
		want          []string
		given         string
	}{
		{nil, []string{"FLANNELD_IFACE=f"}, []string{"f"}, "FLANNELD_IFACE=f"},
		{nil, []string{"FLANNELD_IFACE=f", "TULLED_IFACE=t"}, []string{"t"}, "TULLED_IFACE=t"},
		{nil, []string{"TULLED_IFACE=t", "FLANNELD_IFACE=f", "TULLED_IFACE=again"}, []string{"t"}, "TULLED_IFACE=t"},
		{nil, []string{"TULLED_IFACE=", "FLANNELD_IFACE=f"}, []string{"f"}, "FLANNELD_IFACE=f"},
		{nil, []string{"TULLED_IFACE=a,b"}, []string{"a,b"}, "TULLED_IFACE=a,b"},
		{[]string{"--iface=x"}, []string{"TULLED_IFACE=t"}, []string{"x"}, "--iface=x"},
		{[]string{"--iface=x", "--iface", "y"}, []string{"FLANNELD_IFACE=f"}, []string{"x", "y"}, "--iface=x --iface=y"},
		{[]string{"--iface="}, []string{"TULLED_IFACE=t"}, nil, "--iface="},
		// A value that another overrides is not checked.
		{[]string{"--iface=x"}, []string{"TULLED_IFACE=/", "FLANNELD_IFACE=/"}, []string{"x"}, "--iface=x"},
	} {
		got := parse(t, c.args, c.environ)
		if !slices.Equal(got.Uplink.Ifaces, c.want) || got.String() != c.given {
			t.Errorf("%q %q: got %q from %q, want %q from %q", c.args, c.environ, got.Uplink.Ifaces, got, c.want, c.given)
		}
	}
}

// inKube is what a command line with leases in Kubernetes needs.
var inKube = []string{"--kube-subnet-mgr", "--node-name=n"}

// samples has for each flag a value that is not its default, and the other flags that
// it needs.
var samples = map[string]struct {
	value string
	with  []string
}{
	"etcd-endpoints":                   {value: "https://192.0.2.1:2379"},
	"etcd-prefix":                      {value: "/other"},
	"etcd-cafile":                      {value: "/ca.pem"},
	"etcd-certfile":                    {"/cert.pem", []string{"--etcd-keyfile=/key.pem"}},
	"etcd-keyfile":                     {"/key.pem", []string{"--etcd-certfile=/cert.pem"}},
	"etcd-username":                    {"root", []string{"--etcd-password-file=/password"}},
	"etcd-password":                    {"sesame", []string{"--etcd-username=root"}},
	"etcd-password-file":               {"/password", []string{"--etcd-username=root"}},
	"subnet-lease-ttl":                 {value: "12h"},
	"subnet-lease-renew-margin":        {value: "30"},
	"etcd-embedded":                    {value: "true"},
	"etcd-listen":                      {"http://127.0.0.1:4001", []string{"--etcd-embedded"}},
	"etcd-listen-without-client-certs": {"true", []string{"--etcd-embedded"}},
	"network":                          {"10.5.0.0/16,fd00:5::/48", []string{"--etcd-embedded"}},
	"backend":                          {"ipip", []string{"--etcd-embedded", "--network=10.5.0.0/16"}},
	"node-id":                          {value: "id"},
	"node-name":                        {value: "name"},
	"state-dir":                        {value: "/state"},
	"allow-extension":                  {value: "true"},
	"iface":                            {value: "eth1"},
	"iface-regex":                      {value: "^eth (a|b)$"},
	"iface-can-reach":                  {value: "192.0.2.1"},
	"public-ip":                        {value: "192.0.2.7"},
	"public-ipv6":                      {value: "2001:db8::7"},
	"iface-from-node-ip":               {"true", inKube},
	"public-ip-from":                   {"external", inKube},
	"subnet-file":                      {value: "/subnet.env"},
	"cni-conf-file":                    {value: "/cni.conflist"},
	"ip-blackhole-route":               {value: "true"},
	"ip-masq":                          {value: "true"},
	"no-masq-cidrs":                    {"192.0.2.0/24,2001:db8::/32", []string{"--ip-masq"}},
	"no-masq-cidrs-file":               {"/exempt", []string{"--ip-masq"}},
	"ip-masq-fully-random-disable":     {value: "true"},
	"filter":                           {value: "iptables"},
	"iptables-forward-rules":           {value: "false"},
	"iptables-resync":                  {value: "60"},
	"kube-subnet-mgr":                  {"true", []string{"--node-name=n"}},
	"kube-api-url":                     {"https://192.0.2.1/api", inKube},
	"kubeconfig-file":                  {"/kubeconfig", inKube},
	"kube-annotation-prefix":           {"example.org/net-", inKube},
	"net-config-path":                  {"/net.json", inKube},
	"set-node-network-unavailable":     {"false", inKube},
	"status-socket":                    {value: "/tulled.sock"},
	"output":                           {"json", []string{"status"}},
	"healthz-ip":                       {value: "::1"},
	"healthz-port":                     {value: "8080"},
	"pprof":                            {value: "true"},
	"peer-metrics":                     {value: "true"},
	"probe-interval":                   {value: "30"},
	"probe-port":                       {value: "8480"},
	"v":                                {value: "4"},
	"vmodule":                          {value: "peers=3"},
	"log_backtrace_at":                 {value: "peers.go:7"},
	"wait":                             {"30s", []string{"status"}},
	"watch":                            {"true", []string{"status"}},
	"failing":                          {"true", []string{"peers"}},
	"narrow":                           {"true", []string{"peers"}},
	"strict":                           {"true", []string{"check-config"}},
	"dry-run":                          {"true", []string{"cleanup"}},
	"cni-plugins":                      {"/srv/cni", []string{"install-cni"}},
	"flannel":                          {"true", []string{"cleanup"}},
	"help":                             {value: "true"},
	"version":                          {value: "true"},
}

// TestEveryFlagThreeWays sets every flag in each of the three ways. Each has the same
// effect.
func TestEveryFlagThreeWays(t *testing.T) {
	for _, f := range tulled.Flags {
		t.Run(f.Name, func(t *testing.T) {
			s, ok := samples[f.Name]
			if !ok {
				t.Fatal("there is no sample")
			}
			without := parse(t, slices.DeleteFunc(slices.Clone(s.with), func(a string) bool {
				return strings.Contains(a, "file=") || strings.Contains(a, "username=") // invalid without f
			}), nil)
			bare := func(o Options) Options {
				o.Given, o.Warnings = nil, nil
				return o
			}
			var first Options
			for i, way := range []struct {
				args, environ []string
				from          string
			}{
				{args: []string{"--" + f.Name + "=" + s.value}, from: f.Written()},
				{args: []string{"-" + f.Name + "=" + s.value}, from: f.Written()},
				{environ: []string{"TULLED_" + f.Variable() + "=" + s.value}, from: "TULLED_" + f.Variable()},
				{environ: []string{"FLANNELD_" + f.Variable() + "=" + s.value}, from: "FLANNELD_" + f.Variable()},
			} {
				got := parse(t, append(way.args, s.with...), way.environ)
				if i == 0 {
					first = got
				}
				if !reflect.DeepEqual(bare(got), bare(first)) {
					t.Errorf("%s: got  %#v\nwant %#v", way.from, got, first)
				}
				if reflect.DeepEqual(bare(got), bare(without)) {
					t.Errorf("%s has no effect", way.from)
				}
				if got.Command == Run && !slices.ContainsFunc(got.Given, func(g string) bool { return strings.HasPrefix(g, way.from+"=") }) {
					t.Errorf("%s is not in %q", way.from, got.Given)
				}
			}
		})
	}
	if len(samples) != len(tulled.Flags) {
		t.Errorf("%d samples for %d flags", len(samples), len(tulled.Flags))
	}
}

// TestWarnings checks the warnings about flags without effect.
func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		args, environ string
		want          []string
	}{
		{"--kube-api-url= --kube-subnet-mgr=false --set-node-network-unavailable=false", "", []string{"--set-node-network-unavailable has no effect without --kube-subnet-mgr"}},
		{"--net-config-path=f", "FLANNELD_KUBE_SUBNET_MGR=true NODE_NAME=n", nil},
		{"--etcd-prefix=/x", "FLANNELD_KUBE_SUBNET_MGR=true NODE_NAME=n", []string{"--etcd-prefix has no effect with FLANNELD_KUBE_SUBNET_MGR"}},
		{"--healthz-port=0", "", nil},
		{"--healthz-port=80 --healthz-ip=::1 --pprof", "", nil},
		{"--healthz-ip=0.0.0.0", "TULLED_PPROF=true", []string{"--healthz-ip has no effect without --healthz-port", "TULLED_PPROF has no effect without --healthz-port"}},
		{"--ip-masq=false", "", nil},
		{"", "FLANNELD_IP_MASQ=true", nil},
		{"--no-masq-cidrs=192.0.2.0/24", "", []string{"--no-masq-cidrs has no effect without --ip-masq"}},
		{"--no-masq-cidrs-file=f --ip-masq=ipv6", "", nil},
		{"--filter=none", "TULLED_IP_MASQ=true", []string{"TULLED_IP_MASQ has no effect on the firewall with --filter=none; the env file still says that tulle masquerades"}},
		{"--etcd-username=u --etcd-password=p", "", []string{"--etcd-password is visible in the process list until tulled hides it; use --etcd-password-file"}},
		{"--etcd-username=u", "TULLED_ETCD_PASSWORD=p", nil},
		{"--etcd-cafile=c", "", []string{"--etcd-cafile has no effect with http; use https in --etcd-endpoints"}},
		{"--etcd-cafile=c", "TULLED_ETCD_ENDPOINTS=h:1", []string{"--etcd-cafile has no effect with http; use https in TULLED_ETCD_ENDPOINTS"}},
		{"--etcd-cafile=c --etcd-endpoints=http://a:1,https://b:1", "", nil},
		{"--etcd-certfile=c --etcd-keyfile=k --etcd-endpoints=a:1", "", nil},
		{"--etcd-embedded --etcd-listen=https://192.0.2.7:2379 --etcd-certfile=c --etcd-keyfile=k --etcd-listen-without-client-certs", "", []string{"--etcd-listen-without-client-certs: anyone who reaches https://192.0.2.7:2379 can rewrite the network; use --etcd-cafile"}},
		{"--etcd-embedded --etcd-listen=https://192.0.2.7:2379 --etcd-cafile=a --etcd-certfile=c --etcd-keyfile=k --etcd-listen-without-client-certs", "", []string{"--etcd-listen-without-client-certs has no effect with --etcd-cafile"}},
		{"--etcd-certfile=c --etcd-keyfile=k --etcd-embedded", "", []string{"--etcd-certfile has no effect with http; use https in --etcd-listen"}},
		{"", "FLANNELD_ETCD_ENDPOINT=x FLANNELD_COLOUR=blue", []string{
			"FLANNELD_ETCD_ENDPOINT: unknown variable; did you mean FLANNELD_ETCD_ENDPOINTS?",
			"FLANNELD_COLOUR: unknown variable; unset it, or see tulled --help",
		}},
		// Kubernetes announces services called tulled, tulled-healthz and flanneld.
		{"", "TULLED_SERVICE_HOST=10.96.0.9 TULLED_SERVICE_PORT=2379 TULLED_SERVICE_PORT_HTTP=2379 TULLED_PORT=tcp://10.96.0.9:2379 " +
			"TULLED_PORT_2379_TCP=tcp://10.96.0.9:2379 TULLED_PORT_2379_TCP_PROTO=tcp TULLED_PORT_2379_TCP_PORT=2379 TULLED_PORT_2379_TCP_ADDR=10.96.0.9 " +
			"TULLED_HEALTHZ_PORT=tcp://10.96.0.9:80 FLANNELD_SERVICE_HOST=10.96.0.9", nil},
	} {
		got := parse(t, strings.Fields(c.args), strings.Fields(c.environ))
		if !slices.Equal(got.Warnings, c.want) {
			t.Errorf("%s, %s:\ngot  %q\nwant %q", c.args, c.environ, got.Warnings, c.want)
		}
	}
}

// TestGiven checks that the log's list of settings has all of them, without secrets.
func TestGiven(t *testing.T) {
	got := parse(t, []string{"-v", "2", "--iface-regex=^a b", "--etcd-password", "-hunter2", "--iface=eth0", "-ip-masq"},
		[]string{"TULLED_NODE_NAME=n", "FLANNELD_ETCD_USERNAME=u"})
	const want = `FLANNELD_ETCD_USERNAME=u --etcd-password=… TULLED_NODE_NAME=n --iface=eth0 --iface-regex="^a b" --ip-masq=true -v=2`
	if got.String() != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got.Etcd.Password.Reveal() != "-hunter2" {
		t.Error("the password is lost")
	}
}

// TestNamesFitLeases checks that a lease can contain every accepted name.
func TestNamesFitLeases(t *testing.T) {
	for _, name := range []string{"a", strings.Repeat("x", 253), "größer", "0b5e9c1e7e0e4a1c"} {
		o := parse(t, []string{"--node-id=" + name, "--node-name=" + name}, nil)
		if err := (subnet.Attrs{Node: subnet.Node{ID: o.Node.ID, Name: o.Node.Name}}).Validate(); err != nil {
			t.Error(err)
		}
	}
}
