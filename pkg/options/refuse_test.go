package options

import (
	"reflect"
	"strings"
	"testing"
)

// TestRefusals checks that every error names the flag or variable, the reason and the
// fix. Arguments are separated by spaces.
func TestRefusals(t *testing.T) {
	for _, c := range []struct{ args, environ, want string }{
		// Names.
		{"--etcd-endpoint=http://h:1", "", "--etcd-endpoint: unknown flag; did you mean --etcd-endpoints?"},
		{"-ifaces eth0", "", "--ifaces: unknown flag; did you mean --iface?"},
		{"--etcd_prefix=/x", "", "--etcd_prefix: unknown flag; did you mean --etcd-prefix?"},
		{"--verbose", "", "--verbose: unknown flag; see tulled --help"},
		{"-vv", "", "--vv: unknown flag; see tulled --help"},
		{"--=x", "", "dashes without a flag name; see tulled --help"},
		{"---iface=x", "", "dashes without a flag name; see tulled --help"},
		{"", "TULLED_IFACES=x", "TULLED_IFACES: unknown variable; did you mean TULLED_IFACE?"},
		{"", "TULLED_ETCD_ENDPOINT=x", "TULLED_ETCD_ENDPOINT: unknown variable; did you mean TULLED_ETCD_ENDPOINTS?"},
		{"", "TULLED_HEALTH_PORT=80", "TULLED_HEALTH_PORT: unknown variable; did you mean TULLED_HEALTHZ_PORT?"},
		{"", "TULLED_COLOUR=blue", "TULLED_COLOUR: unknown variable; unset it, or see tulled --help"},
		{"", "TULLED_=x", "TULLED_: unknown variable; unset it, or see tulled --help"},
		{"--iface", "", "--iface: needs a value, as in --iface=NAME|IP"},
		{"--iface --ip-masq", "", "--iface: needs a value, as in --iface=NAME|IP"},
		{"-v -1", "", "-v: needs a value, as in -v=LEVEL"},
		{"--etcd-password --etcd-username=u", "", "--etcd-password: needs a value, as in --etcd-password=TEXT"},

		// Words.
		{"chek-config f", "", "unknown command \"chek-config\"; did you mean \"check-config\"?"},
		{"statsu", "", "unknown command \"statsu\"; did you mean \"status\"?"},
		{"foo", "", "unknown command in argument 1, not counting flags; quote a value with spaces, and see tulled --help"},
		{"--dry-run", "", "--dry-run: belongs to tulled cleanup; add the command, as in tulled cleanup --dry-run"},
		{"--flannel --etcd-embedded", "", "--flannel: belongs to tulled cleanup; add the command, as in tulled cleanup --flannel"},
		{"--cni-plugins=/x", "", "--cni-plugins: belongs to tulled install-cni; add the command, as in tulled install-cni --cni-plugins"},
		{"status --dry-run", "", "--dry-run: belongs to tulled cleanup; add the command, as in tulled cleanup --dry-run"},
		{"status --wait=soon", "", `--wait is "soon": neither a duration nor a boolean; use one like 30s or 2m`},
		{"status --wait=-1s", "", `--wait is "-1s": neither a duration nor a boolean; use one like 30s or 2m`},
		{"--output=json", "", "--output: belongs to tulled status, peers, explain, leases, check-config, bugreport, cleanup, rotate-key, install-cni, version; add the command, as in tulled status --output"},
		{"check-config a b", "", "unexpected argument 3, not counting flags; quote a value with spaces, and see tulled --help"},
		{"lease", "", "unknown command \"lease\"; did you mean \"leases\"?"},
		{"leases x", "", "unexpected argument 2, not counting flags; quote a value with spaces, and see tulled --help"},
		{"version x", "", "unexpected argument 2, not counting flags; quote a value with spaces, and see tulled --help"},
		{"--ip-masq false", "", "unexpected argument \"false\"; join a boolean to its flag, as in --ip-masq=false"},
		{"check-config -- -x", "", "the name of the file to check begins with a dash; write ./ before it"},

		// Kinds of values, and where they come from.
		{"--ip-masq=maybe", "", `--ip-masq is "maybe": neither a boolean nor a family; use true, false, ipv4 or ipv6`},
		{"--filter=nft", "", `--filter is "nft": unknown kind of firewall rules; use auto, nftables, iptables or none`},
		{"--no-masq-cidrs=10.1.2.3", "", `--no-masq-cidrs is "10.1.2.3": not a network; use one like 192.0.2.0/24 or 2001:db8::/32`},
		{"--ip-masq=", "", "--ip-masq: empty; remove it for the default false"},
		{"--etcd-prefix=", "", "--etcd-prefix: empty; remove it for the default /coreos.com/network"},
		{"", "TULLED_IP_MASQ=maybe", `TULLED_IP_MASQ is "maybe": neither a boolean nor a family; use true, false, ipv4 or ipv6`},
		{"", "FLANNELD_VERSION=v0.27", `FLANNELD_VERSION is "v0.27": not a boolean; use true or false`},
		{"--help=x", "", `--help is "x": not a boolean; use true or false`},
		{"--v=x", "", `-v is "x": not a whole number of 0 or more; use a plain number, without a unit`},
		{"--v=-1", "", `-v is "-1": not a whole number of 0 or more; use a plain number, without a unit`},
		{"--healthz-port=65536", "", `--healthz-port is "65536": not a whole number from 0 to 65535; use a plain number, without a unit`},
		{"--healthz-port=99999999999999999999", "", `--healthz-port is "99999999999999999999": not a whole number from 0 to 65535; use a plain number, without a unit`},
		{"--healthz-ip=host", "", `--healthz-ip is "host": not an IP address; use one like 192.0.2.7 or 2001:db8::7`},
		{"--iptables-resync=5s", "", `--iptables-resync is "5s": not a whole number of 1 or more; use a plain number, without a unit`},
		{"--iptables-resync=0", "", `--iptables-resync is "0": not a whole number of 1 or more; use a plain number, without a unit`},
		{"--kube-subnet-mgr", "", "--kube-subnet-mgr: needs the name of this Node; set NODE_NAME by the manifest's fieldRef spec.nodeName, or set --node-name"},
		{"", "FLANNELD_KUBE_SUBNET_MGR=1 POD_NAME=p", "FLANNELD_KUBE_SUBNET_MGR: needs the name of this Node; set NODE_NAME by the manifest's fieldRef spec.nodeName, or set --node-name"},
		{"--kube-subnet-mgr", "NODE_NAME=../x", `NODE_NAME is "../x": not a valid name of a Kubernetes object; set it by fieldRef in the manifest`},
		{"--kube-subnet-mgr --etcd-embedded", "NODE_NAME=n", "--etcd-embedded: conflicts with --kube-subnet-mgr; keep one of the two"},
		{"--kube-subnet-mgr --node-id=x", "NODE_NAME=n", "--node-id: conflicts with --kube-subnet-mgr, where the Node identifies a host; use --node-name or NODE_NAME"},
		{"--kube-subnet-mgr --iface-from-node-ip --iface=eth0", "NODE_NAME=n", "--iface-from-node-ip: conflicts with another flag that chooses the interface; keep one of them"},
		{"--iface-from-node-ip", "", `--iface-from-node-ip is "true": needs --kube-subnet-mgr`},
		{"--public-ip-from=external", "", `--public-ip-from is "external": needs --kube-subnet-mgr`},
		{"--public-ip-from=internal", "", `--public-ip-from is "internal": unknown source; use interface or external`},
		{"--kube-subnet-mgr=x", "", `--kube-subnet-mgr is "x": not a boolean; use true or false`},
		{"--kube-api-url=https://root:hunter2@h", "", "--kube-api-url: user, URL with a query or fragment; use one like https://192.0.2.7:6443"},
		{"--kube-api-url=https://root:hunter2", "", "--kube-api-url: not a URL; use one like https://192.0.2.7:6443"},
		{"--kube-api-url=/x", "", `--kube-api-url is "/x": no valid host in the URL; use one like https://192.0.2.7:6443`},
		{"--kube-annotation-prefix=a.b/c/d", "", `--kube-annotation-prefix is "a.b/c/d": not an annotation prefix; use a domain, like flannel.alpha.coreos.com, with at most one slash`},
		{"--subnet-file=/run/", "", `--subnet-file is "/run/": a folder; give the path of a file`},
		{"--state-dir=a\x01", "", `--state-dir is "a\x01": unprintable path; use another path`},
		{"--vmodule=peers", "", `--vmodule is "peers": not a file pattern with a level; use one like peers=2 or watch*=4`},
		{"--vmodule=a=1,peers=-2", "", `--vmodule is "peers=-2": not a file pattern with a level; use one like peers=2 or watch*=4`},
		{"--log_backtrace_at=peers:3", "", `--log_backtrace_at is "peers:3": not a source line; use one like peers.go:120`},
		{"--log_backtrace_at=peers.go:0", "", `--log_backtrace_at is "peers.go:0": not a source line; use one like peers.go:120`},
		{"--node-id=" + strings.Repeat("x", 254), "", `--node-id is "` + strings.Repeat("x", 80) + `…": not a valid name; use at most 253 bytes without spaces`},
		{"--node-name=a\u00a0b", "", "--node-name is \"a\\u00a0b\": not a valid name; use at most 253 bytes without spaces"},

		// Interfaces.
		{"--iface=a/b", "", `--iface is "a/b": not an interface name or address; use one like eth0 or 192.0.2.7`},
		{"--iface-regex=[", "", "--iface-regex is \"[\": error parsing regexp: missing closing ]: `[`; use one like \"^eth\" or \"^192\\.168\\.\""},
		{"--iface-can-reach=x", "", `--iface-can-reach is "x": not an IP address; use one like 192.0.2.7 or 2001:db8::7`},
		{"--iface-can-reach=127.0.0.1", "", `--iface-can-reach is "127.0.0.1": not the address of a single host; use that of another host`},
		{"--iface-can-reach=fe80::1%eth0", "", `--iface-can-reach is "fe80::1%eth0": not the address of a single host; use that of another host`},
		{"--public-ip=x", "", `--public-ip is "x": not an IP address; use the IPv4 address at which other hosts reach this one`},
		{"--public-ip=2001:db8::7", "", `--public-ip is "2001:db8::7": not an IPv4 address; use the IPv4 address at which other hosts reach this one`},
		{"--public-ip=127.0.0.1", "", `--public-ip is "127.0.0.1": not reachable from other hosts; use the IPv4 address at which other hosts reach this one`},
		{"", "TULLED_PUBLIC_IPV6=192.0.2.7", `TULLED_PUBLIC_IPV6 is "192.0.2.7": not an IPv6 address; use the IPv6 address at which other hosts reach this one`},
		{"--public-ipv6=fe80::1", "", `--public-ipv6 is "fe80::1": not reachable from other hosts; use the IPv6 address at which other hosts reach this one`},
		{"--public-ipv6=::ffff:192.0.2.7", "", `--public-ipv6 is "::ffff:192.0.2.7": not an IPv6 address; use the IPv6 address at which other hosts reach this one`},

		// Etcd.
		{"--etcd-prefix=.", "", `--etcd-prefix is ".": not a prefix of etcd keys; use one like /coreos.com/network`},
		{"--etcd-endpoints=,", "", `--etcd-endpoints is ",": no URL in it; use one like http://192.0.2.7:2379`},
		{"--etcd-endpoints=ftp://h:1", "", `--etcd-endpoints is "ftp://h:1": unknown URL scheme; use http, https, unix or unixs, as in https://192.0.2.7:2379`},
		{"--etcd-endpoints=http://h", "", `--etcd-endpoints is "http://h": no port in the URL; add one, like :2379`},
		{"--etcd-endpoints=h", "", `--etcd-endpoints is "http://h": no port in the URL; add one, like :2379`},
		{"--etcd-endpoints=http://h:0", "", `--etcd-endpoints is "http://h:0": port 0 is not valid; use etcd's, like 2379`},
		{"--etcd-endpoints=http://h:65536", "", `--etcd-endpoints: invalid port in the URL; use one up to 65535, like 2379`},
		{"--etcd-endpoints=http://:2379", "", `--etcd-endpoints is "http://:2379": no valid host in the URL; use one like https://192.0.2.7:2379, with an IPv6 address in brackets`},
		{"--etcd-endpoints=http://h:1/v2", "", `--etcd-endpoints is "http://h:1/v2": URL of etcd with a path; remove the path`},
		{"--etcd-endpoints=http://h:1?a=hunter2", "", `--etcd-endpoints: URL with a query or fragment; use one like https://192.0.2.7:2379, with an IPv6 address in brackets`},
		{"--etcd-endpoints=http://h:1#", "", `--etcd-endpoints: URL with a query or fragment; use one like https://192.0.2.7:2379, with an IPv6 address in brackets`},
		{"--etcd-endpoints=unix://", "", `--etcd-endpoints is "unix://": no path after the scheme; use one like unix:///run/etcd/client.sock`},
		{"--etcd-endpoints=http://root:hunter2", "", `--etcd-endpoints: not a URL with a host and a port; use one like https://192.0.2.7:2379, with an IPv6 address in brackets`},
		{"--etcd-endpoints=http://root:hunt,er2@h:1", "", `--etcd-endpoints: URL with a user or password; set --etcd-username and --etcd-password-file`},
		{"", "FLANNELD_ETCD_ENDPOINTS=root:hunter2@h:1", `FLANNELD_ETCD_ENDPOINTS: URL with a user or password; set --etcd-username and --etcd-password-file`},
		{"--etcd-certfile=c", "", "--etcd-certfile: needs --etcd-keyfile"},
		{"", "TULLED_ETCD_KEYFILE=k", "TULLED_ETCD_KEYFILE: needs --etcd-certfile"},
		{"--etcd-username=root:hunter2", "", "--etcd-username: contains a colon; use the name alone, and --etcd-password-file"},
		{"--etcd-username=a\tb", "", "--etcd-username: contains spaces or unprintable characters; use the name of an etcd user"},
		{"--etcd-username=root", "", "--etcd-username: needs --etcd-password-file"},
		{"", "FLANNELD_ETCD_PASSWORD=hunter2", "FLANNELD_ETCD_PASSWORD: needs --etcd-username"},
		{"--etcd-password-file=f", "", "--etcd-password-file: needs --etcd-username"},
		{"--etcd-username=u --etcd-password=hunter2", "TULLED_ETCD_PASSWORD_FILE=f", "--etcd-password: conflicts with TULLED_ETCD_PASSWORD_FILE; keep one of the two, preferably the file"},
		{"--subnet-lease-ttl=24", "", `--subnet-lease-ttl is "24": not a duration; use one from 2m to 8760h, like 24h`},
		{"--subnet-lease-ttl=1m", "", `--subnet-lease-ttl is "1m": out of range; use one from 2m to 8760h, like 24h`},
		{"--subnet-lease-ttl=8761h", "", `--subnet-lease-ttl is "8761h": out of range; use one from 2m to 8760h, like 24h`},
		{"--subnet-lease-ttl=150.5s", "", `--subnet-lease-ttl is "150.5s": not whole seconds; use one from 2m to 8760h, like 24h`},
		{"--subnet-lease-renew-margin=0", "", `--subnet-lease-renew-margin is "0": not a whole number from 1 to 1439; use a plain number, without a unit`},
		{"--subnet-lease-renew-margin=1440", "", `--subnet-lease-renew-margin is "1440": not a whole number from 1 to 1439; use a plain number, without a unit`},
		{"--subnet-lease-renew-margin=60m", "", `--subnet-lease-renew-margin is "60m": not a whole number from 1 to 1439; use a plain number, without a unit`},
		{"--subnet-lease-ttl=1h", "FLANNELD_SUBNET_LEASE_RENEW_MARGIN=60", `FLANNELD_SUBNET_LEASE_RENEW_MARGIN is "60": not shorter than a lease, which lasts 1h; lower it, or raise --subnet-lease-ttl`},
		{"--subnet-lease-ttl=150s --subnet-lease-renew-margin=3", "", `--subnet-lease-renew-margin is "3": not shorter than a lease, which lasts 2m30s; lower it, or raise --subnet-lease-ttl`},

		// The embedded etcd.
		{"--etcd-listen=http://127.0.0.1:1", "", "--etcd-listen: needs --etcd-embedded"},
		{"", "TULLED_NETWORK=10.5.0.0/16", "TULLED_NETWORK: needs --etcd-embedded"},
		{"--backend=vxlan", "", "--backend: needs --etcd-embedded"},
		{"--etcd-embedded --backend=vxlan", "", "--backend: needs --network"},
		{"--etcd-embedded --network=10.5.0.0/16 --backend=V/X", "", `--backend is "V/X": unknown backend; use one of alloc, host-gw, ipip, vxlan`},
		{"--etcd-embedded", "FLANNELD_ETCD_ENDPOINTS=h:1", "FLANNELD_ETCD_ENDPOINTS: conflicts with --etcd-embedded; keep one of the two"},
		{"--etcd-embedded --etcd-listen=http://0.0.0.0:2379", "", `--etcd-listen is "http://0.0.0.0:2379": unencrypted, and beyond loopback anyone could read and change the network; use https, with --etcd-certfile and --etcd-keyfile`},
		{"--etcd-embedded --etcd-listen=http://[::]:2379 --etcd-certfile=c --etcd-keyfile=k", "", `--etcd-listen is "http://[::]:2379": unencrypted, and beyond loopback anyone could read and change the network; use https, with --etcd-certfile and --etcd-keyfile`},
		{"--etcd-embedded --etcd-listen=https://192.0.2.7:2379", "", `--etcd-listen is "https://192.0.2.7:2379": https needs a certificate; add --etcd-certfile and --etcd-keyfile`},
		{"--etcd-embedded --etcd-listen=https://192.0.2.7:2379 --etcd-certfile=c --etcd-keyfile=k", "", `--etcd-listen is "https://192.0.2.7:2379": without client certificates anyone who reaches it could rewrite the network; add --etcd-cafile; --etcd-listen-without-client-certs allows it nevertheless`},
		{"--etcd-listen-without-client-certs", "", "--etcd-listen-without-client-certs: needs --etcd-embedded"},
		{"--etcd-embedded --etcd-listen=https://h:2379", "", `--etcd-listen is "https://h:2379": not an address to listen on; use one of this host's addresses, or 0.0.0.0 or [::] for all`},
		{"--etcd-embedded --etcd-listen=http://localhost:0", "", `--etcd-listen is "http://localhost:0": port 0 is another port at every start; use etcd's, 2379`},
		{"--etcd-embedded --etcd-listen=ftp://h:1", "", `--etcd-listen is "ftp://h:1": unknown URL scheme; use http, https, unix or unixs`},
		{"--etcd-embedded --etcd-listen=unix://s", "", `--etcd-listen is "unix://s": no absolute path after the scheme; use one like unix:///run/tulle/etcd.sock`},
		{"--etcd-embedded --etcd-listen=unixs:///s", "", `--etcd-listen is "unixs:///s": unixs needs a certificate; add --etcd-certfile and --etcd-keyfile`},
		{"--etcd-embedded --etcd-listen=http://root:hunter2@127.0.0.1:1", "", `--etcd-listen: URL with a user or password; set --etcd-username and --etcd-password-file`},
		{"--etcd-embedded --network=10.5.0.0", "", `--network is "10.5.0.0": not a network; use one IPv4 network, one IPv6 network or both, like 10.5.0.0/16,fd00:5::/48`},
		{"--etcd-embedded --network=10.5.0.0/16,10.6.0.0/16", "", `--network is "10.6.0.0/16": a second IPv4 network; use one IPv4 network, one IPv6 network or both, like 10.5.0.0/16,fd00:5::/48`},
		{"--etcd-embedded --network=10.5.0.0/29", "", `--network is "10.5.0.0/29": too small for four subnets of four addresses; set it to a /28 or larger`},
		{"--etcd-embedded", "TULLED_NETWORK=10.5.0.0/16,fe80::/48", `TULLED_NETWORK is "fe80::/48": contains link-local addresses (fe80::/10); set it to a network like "fd00:5::/48"`},
		{"--etcd-embedded --network=::ffff:10.5.0.0/112", "", `--network is "::ffff:10.5.0.0/112": IPv4 written as IPv6; set it to a network like "fd00:5::/48"`},
	} {
		t.Run(c.args+" "+c.environ, func(t *testing.T) {
			got, err := Parse(strings.FieldsFunc(c.args, isSpace), strings.FieldsFunc(c.environ, isSpace), backends)
			if err == nil {
				t.Fatalf("got %#v", got)
			}
			if err.Error() != c.want {
				t.Errorf("got  %s\nwant %s", err, c.want)
			}
			if strings.Contains(err.Error(), "hunt") {
				t.Error("the error shows a secret")
			}
			if !reflect.DeepEqual(got, Options{}) {
				t.Errorf("got an error and %#v", got)
			}
		})
	}
}

func isSpace(r rune) bool { return r == ' ' }

// TestSpacesAreKept checks that an argument or a value may have spaces.
func TestSpacesAreKept(t *testing.T) {
	for _, args := range [][]string{{"--iface=eth0 eth1"}, {"--etcd-endpoints=http://a b:1"}, {"--node-id", "a b"}, {" "}, {""}} {
		if got, err := Parse(args, nil, backends); err == nil {
			t.Errorf("%q: got %#v", args, got)
		}
	}
	if got := parse(t, []string{"--etcd-endpoints= http://a:1 , http://b:1 ", "--subnet-file=/a b"}, nil); len(got.Etcd.Endpoints) != 2 || got.SubnetFile != "/a b" {
		t.Errorf("got %#v", got)
	}
}
