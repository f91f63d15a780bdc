package options

import (
	"reflect"
	"strings"
	"testing"
)

// Every refusal says by which flag or variable, why, and what to do. Arguments
// are separated by spaces.
func TestRefusals(t *testing.T) {
	for _, c := range []struct{ args, environ, want string }{
		// Names.
		{"--etcd-endpoint=http://h:1", "", "--etcd-endpoint: there is no such flag; did you mean --etcd-endpoints?"},
		{"-ifaces eth0", "", "--ifaces: there is no such flag; did you mean --iface?"},
		{"--etcd_prefix=/x", "", "--etcd_prefix: there is no such flag; did you mean --etcd-prefix?"},
		{"--verbose", "", "--verbose: there is no such flag; tulled --help lists all that there are"},
		{"-vv", "", "--vv: there is no such flag; tulled --help lists all that there are"},
		{"--=x", "", "there are dashes without the name of a flag; tulled --help lists all that there are"},
		{"---iface=x", "", "there are dashes without the name of a flag; tulled --help lists all that there are"},
		{"", "TULLED_IFACES=x", "TULLED_IFACES: there is no such variable; did you mean TULLED_IFACE?"},
		{"", "TULLED_ETCD_ENDPOINT=x", "TULLED_ETCD_ENDPOINT: there is no such variable; did you mean TULLED_ETCD_ENDPOINTS?"},
		{"", "TULLED_HEALTH_PORT=80", "TULLED_HEALTH_PORT: there is no such variable; did you mean TULLED_HEALTHZ_PORT?"},
		{"", "TULLED_COLOUR=blue", "TULLED_COLOUR: there is no such variable; unset it, or see tulled --help for all that there are"},
		{"", "TULLED_=x", "TULLED_: there is no such variable; unset it, or see tulled --help for all that there are"},
		{"--iface", "", "--iface: it needs a value; write --iface=NAME|IP"},
		{"--iface --ip-masq", "", "--iface: it needs a value; write --iface=NAME|IP"},
		{"-v -1", "", "-v: it needs a value; write -v=LEVEL"},
		{"--etcd-password --etcd-username=u", "", "--etcd-password: it needs a value; write --etcd-password=TEXT"},

		// Words.
		{"chek-config f", "", "word 1 that is no flag belongs to nothing; did you mean check-config?"},
		{"check-config a b", "", "word 3 that is no flag belongs to nothing; flags begin with dashes, values with spaces need quotes, and tulled --help lists all that there is"},
		{"lease", "", "word 1 that is no flag belongs to nothing; did you mean leases?"},
		{"leases x", "", "word 2 that is no flag belongs to nothing; flags begin with dashes, values with spaces need quotes, and tulled --help lists all that there is"},
		{"version x", "", "word 2 that is no flag belongs to nothing; flags begin with dashes, values with spaces need quotes, and tulled --help lists all that there is"},
		{"--ip-masq false", "", "word 1 that is no flag belongs to nothing; write a truth value with its flag and an equals sign, like --ip-masq=false"},
		{"check-config -- -x", "", "the file to check begins with a dash; write ./ before it"},

		// Kinds of values, and where they come from.
		{"--ip-masq=maybe", "", `--ip-masq is "maybe": neither a truth value nor a family; write true, false, ipv4 or ipv6`},
		{"--filter=nft", "", `--filter is "nft": no kind of firewall rules; write auto, nftables, iptables or none`},
		{"--no-masq-cidrs=10.1.2.3", "", `--no-masq-cidrs is "10.1.2.3": not a network; write one like 192.0.2.0/24 or 2001:db8::/32`},
		{"--ip-masq=", "", "--ip-masq: it is empty; leave it out for false"},
		{"--etcd-prefix=", "", "--etcd-prefix: it is empty; leave it out for /coreos.com/network"},
		{"", "TULLED_IP_MASQ=maybe", `TULLED_IP_MASQ is "maybe": neither a truth value nor a family; write true, false, ipv4 or ipv6`},
		{"", "FLANNELD_VERSION=v0.27", `FLANNELD_VERSION is "v0.27": not a truth value; write true or false`},
		{"--help=x", "", `--help is "x": not a truth value; write true or false`},
		{"--v=x", "", `-v is "x": not a whole number of 0 or more; write one, without a unit`},
		{"--v=-1", "", `-v is "-1": not a whole number of 0 or more; write one, without a unit`},
		{"--healthz-port=65536", "", `--healthz-port is "65536": not a whole number from 0 to 65535; write one, without a unit`},
		{"--healthz-port=99999999999999999999", "", `--healthz-port is "99999999999999999999": not a whole number from 0 to 65535; write one, without a unit`},
		{"--healthz-ip=host", "", `--healthz-ip is "host": not an IP address; write one like 192.0.2.7 or 2001:db8::7`},
		{"--iptables-resync=5s", "", `--iptables-resync is "5s": not a whole number of 1 or more; write one, without a unit`},
		{"--iptables-resync=0", "", `--iptables-resync is "0": not a whole number of 1 or more; write one, without a unit`},
		{"--kube-subnet-mgr", "", "--kube-subnet-mgr: it does not say which Node this is; set NODE_NAME by the manifest's fieldRef spec.nodeName, or give --node-name"},
		{"", "FLANNELD_KUBE_SUBNET_MGR=1 POD_NAME=p", "FLANNELD_KUBE_SUBNET_MGR: it does not say which Node this is; set NODE_NAME by the manifest's fieldRef spec.nodeName, or give --node-name"},
		{"--kube-subnet-mgr", "NODE_NAME=../x", `NODE_NAME is "../x": no object in Kubernetes can have this name; have the manifest set it by fieldRef`},
		{"--kube-subnet-mgr --etcd-embedded", "NODE_NAME=n", "--etcd-embedded: leases are in Kubernetes by --kube-subnet-mgr; leave out one of the two"},
		{"--kube-subnet-mgr --node-id=x", "NODE_NAME=n", "--node-id: in Kubernetes a host is known by its Node; leave it out; --node-name or NODE_NAME says which Node that is"},
		{"--kube-subnet-mgr --iface-from-node-ip --iface=eth0", "NODE_NAME=n", "--iface-from-node-ip: another flag names the interface too; keep one of them"},
		{"--iface-from-node-ip", "", `--iface-from-node-ip is "true": there is no Node without Kubernetes; add --kube-subnet-mgr, or leave it out`},
		{"--public-ip-from=external", "", `--public-ip-from is "external": there is no Node without Kubernetes; add --kube-subnet-mgr, or leave it out`},
		{"--public-ip-from=internal", "", `--public-ip-from is "internal": addresses come from nowhere of that name; write interface or external`},
		{"--kube-subnet-mgr=x", "", `--kube-subnet-mgr is "x": not a truth value; write true or false`},
		{"--kube-api-url=https://root:hunter2@h", "", "--kube-api-url: a URL with more in it than a host, a port and a path; write one like https://192.0.2.7:6443"},
		{"--kube-api-url=https://root:hunter2", "", "--kube-api-url: not a URL; write one like https://192.0.2.7:6443"},
		{"--kube-api-url=/x", "", `--kube-api-url is "/x": not a URL of a host; write one like https://192.0.2.7:6443`},
		{"--kube-annotation-prefix=a.b/c/d", "", `--kube-annotation-prefix is "a.b/c/d": not a prefix of annotations; write a domain, like flannel.alpha.coreos.com, with at most one slash`},
		{"--subnet-file=/run/", "", `--subnet-file is "/run/": a folder's name; write that of a file`},
		{"--state-dir=a\x01", "", `--state-dir is "a\x01": not a path that can be printed; write another`},
		{"--vmodule=peers", "", `--vmodule is "peers": not a file pattern with its level; write one like peers=2 or watch*=4`},
		{"--vmodule=a=1,peers=-2", "", `--vmodule is "peers=-2": not a file pattern with its level; write one like peers=2 or watch*=4`},
		{"--log_backtrace_at=peers:3", "", `--log_backtrace_at is "peers:3": not a line of a source file; write one like peers.go:120`},
		{"--log_backtrace_at=peers.go:0", "", `--log_backtrace_at is "peers.go:0": not a line of a source file; write one like peers.go:120`},
		{"--node-id=" + strings.Repeat("x", 254), "", `--node-id is "` + strings.Repeat("x", 80) + `…": not a name that may stand in a lease; write at most 253 bytes without spaces`},
		{"--node-name=a\u00a0b", "", "--node-name is \"a\\u00a0b\": not a name that may stand in a lease; write at most 253 bytes without spaces"},

		// Interfaces.
		{"--iface=a/b", "", `--iface is "a/b": no interface can have this name; write an interface's name or address, like eth0 or 192.0.2.7`},
		{"--iface-regex=[", "", "--iface-regex is \"[\": error parsing regexp: missing closing ]: `[`; write one like \"^eth\" or \"^192\\.168\\.\""},
		{"--iface-can-reach=x", "", `--iface-can-reach is "x": not an IP address; write one like 192.0.2.7 or 2001:db8::7`},
		{"--iface-can-reach=127.0.0.1", "", `--iface-can-reach is "127.0.0.1": no route leads to one host there; give the address of another host`},
		{"--iface-can-reach=fe80::1%eth0", "", `--iface-can-reach is "fe80::1%eth0": no route leads to one host there; give the address of another host`},
		{"--public-ip=x", "", `--public-ip is "x": not an IP address; give the IPv4 address by which the other hosts reach this one`},
		{"--public-ip=2001:db8::7", "", `--public-ip is "2001:db8::7": not an IPv4 address; give the IPv4 address by which the other hosts reach this one`},
		{"--public-ip=127.0.0.1", "", `--public-ip is "127.0.0.1": no other host can send there; give the IPv4 address by which the other hosts reach this one`},
		{"", "TULLED_PUBLIC_IPV6=192.0.2.7", `TULLED_PUBLIC_IPV6 is "192.0.2.7": not an IPv6 address; give the IPv6 address by which the other hosts reach this one`},
		{"--public-ipv6=fe80::1", "", `--public-ipv6 is "fe80::1": no other host can send there; give the IPv6 address by which the other hosts reach this one`},
		{"--public-ipv6=::ffff:192.0.2.7", "", `--public-ipv6 is "::ffff:192.0.2.7": not an IPv6 address; give the IPv6 address by which the other hosts reach this one`},

		// Etcd.
		{"--etcd-prefix=.", "", `--etcd-prefix is ".": not a prefix of keys; write one like /coreos.com/network`},
		{"--etcd-endpoints=,", "", `--etcd-endpoints is ",": no URL is in it; write one like http://192.0.2.7:2379`},
		{"--etcd-endpoints=ftp://h:1", "", `--etcd-endpoints is "ftp://h:1": not a URL of a kind that is known here; use http, https, unix or unixs, as in https://192.0.2.7:2379`},
		{"--etcd-endpoints=http://h", "", `--etcd-endpoints is "http://h": it has no port; add one, like :2379`},
		{"--etcd-endpoints=h", "", `--etcd-endpoints is "http://h": it has no port; add one, like :2379`},
		{"--etcd-endpoints=http://h:0", "", `--etcd-endpoints is "http://h:0": nobody listens at port 0; write etcd's own, like 2379`},
		{"--etcd-endpoints=http://h:65536", "", `--etcd-endpoints: its port is none; write one up to 65535, like 2379`},
		{"--etcd-endpoints=http://:2379", "", `--etcd-endpoints is "http://:2379": not a URL of a host; write one like https://192.0.2.7:2379, with an IPv6 address in brackets`},
		{"--etcd-endpoints=http://h:1/v2", "", `--etcd-endpoints is "http://h:1/v2": a path is in it; leave it out`},
		{"--etcd-endpoints=http://h:1?a=hunter2", "", `--etcd-endpoints: something follows after ? or #; write one like https://192.0.2.7:2379, with an IPv6 address in brackets`},
		{"--etcd-endpoints=http://h:1#", "", `--etcd-endpoints: something follows after ? or #; write one like https://192.0.2.7:2379, with an IPv6 address in brackets`},
		{"--etcd-endpoints=unix://", "", `--etcd-endpoints is "unix://": no path follows; write one like unix:///run/etcd/client.sock`},
		{"--etcd-endpoints=http://root:hunter2", "", `--etcd-endpoints: not a URL of a host and a port; write one like https://192.0.2.7:2379, with an IPv6 address in brackets`},
		{"--etcd-endpoints=http://root:hunt,er2@h:1", "", `--etcd-endpoints: a URL with a user or a password in it; give them with --etcd-username and --etcd-password-file`},
		{"", "FLANNELD_ETCD_ENDPOINTS=root:hunter2@h:1", `FLANNELD_ETCD_ENDPOINTS: a URL with a user or a password in it; give them with --etcd-username and --etcd-password-file`},
		{"--etcd-certfile=c", "", "--etcd-certfile: a certificate is of use only with its key; add --etcd-keyfile"},
		{"", "TULLED_ETCD_KEYFILE=k", "TULLED_ETCD_KEYFILE: a certificate is of use only with its key; add --etcd-certfile"},
		{"--etcd-username=root:hunter2", "", "--etcd-username: there is a colon in it; give the name alone, and the password with --etcd-password-file"},
		{"--etcd-username=a\tb", "", "--etcd-username: it has spaces or what cannot be printed; write the name of a user of etcd"},
		{"--etcd-username=root", "", "--etcd-username: no password comes with it; add --etcd-password-file"},
		{"", "FLANNELD_ETCD_PASSWORD=hunter2", "FLANNELD_ETCD_PASSWORD: nobody has it; add --etcd-username"},
		{"--etcd-password-file=f", "", "--etcd-password-file: nobody has the password in it; add --etcd-username"},
		{"--etcd-username=u --etcd-password=hunter2", "TULLED_ETCD_PASSWORD_FILE=f", "--etcd-password: there is TULLED_ETCD_PASSWORD_FILE too; keep one of the two, better the file"},
		{"--subnet-lease-ttl=24", "", `--subnet-lease-ttl is "24": not a duration with its unit; write one from 2m to 8760h, like 24h`},
		{"--subnet-lease-ttl=1m", "", `--subnet-lease-ttl is "1m": not a time that a host may be away for; write one from 2m to 8760h, like 24h`},
		{"--subnet-lease-ttl=8761h", "", `--subnet-lease-ttl is "8761h": not a time that a host may be away for; write one from 2m to 8760h, like 24h`},
		{"--subnet-lease-ttl=150.5s", "", `--subnet-lease-ttl is "150.5s": etcd counts whole seconds; write one from 2m to 8760h, like 24h`},
		{"--subnet-lease-renew-margin=0", "", `--subnet-lease-renew-margin is "0": not a whole number from 1 to 1439; write one, without a unit`},
		{"--subnet-lease-renew-margin=1440", "", `--subnet-lease-renew-margin is "1440": not a whole number from 1 to 1439; write one, without a unit`},
		{"--subnet-lease-renew-margin=60m", "", `--subnet-lease-renew-margin is "60m": not a whole number from 1 to 1439; write one, without a unit`},
		{"--subnet-lease-ttl=1h", "FLANNELD_SUBNET_LEASE_RENEW_MARGIN=60", `FLANNELD_SUBNET_LEASE_RENEW_MARGIN is "60": a lease is for 1h, and cannot have as much left always; set it lower, or --subnet-lease-ttl higher`},
		{"--subnet-lease-ttl=150s --subnet-lease-renew-margin=3", "", `--subnet-lease-renew-margin is "3": a lease is for 2m30s, and cannot have as much left always; set it lower, or --subnet-lease-ttl higher`},

		// The embedded etcd.
		{"--etcd-listen=http://127.0.0.1:1", "", "--etcd-listen: it is for the embedded etcd alone, which is off; add --etcd-embedded, or leave it out"},
		{"", "TULLED_NETWORK=10.5.0.0/16", "TULLED_NETWORK: it is for the embedded etcd alone, which is off; add --etcd-embedded, or leave it out"},
		{"--backend=vxlan", "", "--backend: it is for the embedded etcd alone, which is off; add --etcd-embedded, or leave it out"},
		{"--etcd-embedded --backend=vxlan", "", "--backend: without a network there is nothing to put it into; add --network"},
		{"--etcd-embedded --network=10.5.0.0/16 --backend=V/X", "", `--backend is "V/X": not the name of a backend; write one like vxlan or host-gw`},
		{"--etcd-embedded", "FLANNELD_ETCD_ENDPOINTS=h:1", "FLANNELD_ETCD_ENDPOINTS: the embedded etcd is on, and tulled uses one or the other; leave out it or --etcd-embedded"},
		{"--etcd-embedded --etcd-listen=http://0.0.0.0:2379", "", `--etcd-listen is "http://0.0.0.0:2379": beyond loopback anybody could read and change the network; use https, with --etcd-certfile and --etcd-keyfile`},
		{"--etcd-embedded --etcd-listen=http://[::]:2379 --etcd-certfile=c --etcd-keyfile=k", "", `--etcd-listen is "http://[::]:2379": beyond loopback anybody could read and change the network; use https, with --etcd-certfile and --etcd-keyfile`},
		{"--etcd-embedded --etcd-listen=https://192.0.2.7:2379", "", `--etcd-listen is "https://192.0.2.7:2379": https needs a certificate; add --etcd-certfile and --etcd-keyfile`},
		{"--etcd-embedded --etcd-listen=https://h:2379", "", `--etcd-listen is "https://h:2379": not an address to listen at; write one of this host's addresses, or 0.0.0.0 or [::] for all`},
		{"--etcd-embedded --etcd-listen=ftp://h:1", "", `--etcd-listen is "ftp://h:1": not a URL of a kind that is known here; use http, https, unix or unixs`},
		{"--etcd-embedded --etcd-listen=unix://s", "", `--etcd-listen is "unix://s": no absolute path follows; write one like unix:///run/tulle/etcd.sock`},
		{"--etcd-embedded --etcd-listen=unixs:///s", "", `--etcd-listen is "unixs:///s": unixs needs a certificate; add --etcd-certfile and --etcd-keyfile`},
		{"--etcd-embedded --etcd-listen=http://root:hunter2@127.0.0.1:1", "", `--etcd-listen: a URL with a user or a password in it; give them with --etcd-username and --etcd-password-file`},
		{"--etcd-embedded --network=10.5.0.0", "", `--network is "10.5.0.0": not a network; write one IPv4 network, one IPv6 network or both, like 10.5.0.0/16,fd00:5::/48`},
		{"--etcd-embedded --network=10.5.0.0/16,10.6.0.0/16", "", `--network is "10.6.0.0/16": a second IPv4 network; write one IPv4 network, one IPv6 network or both, like 10.5.0.0/16,fd00:5::/48`},
		{"--etcd-embedded --network=10.5.0.0/29", "", `--network is "10.5.0.0/29": too small for four subnets of four addresses; set it to a /28 or larger`},
		{"--etcd-embedded", "TULLED_NETWORK=10.5.0.0/16,fe80::/48", `TULLED_NETWORK is "fe80::/48": it holds link-local addresses (fe80::/10); set it to a network like "fd00:5::/48"`},
		{"--etcd-embedded --network=::ffff:10.5.0.0/112", "", `--network is "::ffff:10.5.0.0/112": IPv4 written as IPv6; set it to a network like "fd00:5::/48"`},
	} {
		t.Run(c.args+" "+c.environ, func(t *testing.T) {
			got, err := Parse(strings.FieldsFunc(c.args, isSpace), strings.FieldsFunc(c.environ, isSpace))
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

// An argument or a value may have spaces.
func TestSpacesAreKept(t *testing.T) {
	for _, args := range [][]string{{"--iface=eth0 eth1"}, {"--etcd-endpoints=http://a b:1"}, {"--node-id", "a b"}, {" "}, {""}} {
		if got, err := Parse(args, nil); err == nil {
			t.Errorf("%q: got %#v", args, got)
		}
	}
	if got := parse(t, []string{"--etcd-endpoints= http://a:1 , http://b:1 ", "--subnet-file=/a b"}, nil); len(got.Etcd.Endpoints) != 2 || got.SubnetFile != "/a b" {
		t.Errorf("got %#v", got)
	}
}
