package options

import (
	"net/netip"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// flag describes one flag, and its variables.
type flag struct {
	name  string
	group string // its heading in the help
	// value is what the help calls the value; a boolean has none, and
	// --name alone means true.
	value    string
	about    string // fits on its line
	fallback string // the default, as one would write it
	many     bool   // a repeated flag adds; else the last one counts
	secret   bool   // the value is never shown
	set      func(o *Options, value string) error
}

func (f flag) truth() bool { return f.value == "" }

// The help's headings.
const (
	store      = "Store"
	embedded   = "Embedded etcd"
	node       = "Node"
	uplink     = "Uplink"
	outputs    = "Outputs"
	filtering  = "Firewall"
	kubernetes = "Kubernetes"
	health     = "Health"
	logging    = "Logging"
	other      = "Other"
)

// table has every flag, in the order of the help.
var table = []flag{
	{name: "etcd-endpoints", group: store, value: "URLS", fallback: "http://127.0.0.1:2379",
		about: "etcd URLs, comma-separated",
		set:   into(func(o *Options) *[]string { return &o.Etcd.Endpoints }, endpoints)},
	{name: "etcd-prefix", group: store, value: "KEY", fallback: "/coreos.com/network",
		about: "prefix of all keys in etcd",
		set:   into(func(o *Options) *string { return &o.Etcd.Prefix }, prefix)},
	{name: "etcd-cafile", group: store, value: "FILE",
		about: "CA certificates that verify etcd's certificate",
		set:   into(func(o *Options) *string { return &o.Etcd.CAFile }, file)},
	{name: "etcd-certfile", group: store, value: "FILE",
		about: "certificate for etcd: client's, or embedded server's",
		set:   into(func(o *Options) *string { return &o.Etcd.CertFile }, file)},
	{name: "etcd-keyfile", group: store, value: "FILE",
		about: "private key of --etcd-certfile",
		set:   into(func(o *Options) *string { return &o.Etcd.KeyFile }, file)},
	{name: "etcd-username", group: store, value: "NAME",
		about: "etcd user",
		set:   into(func(o *Options) *string { return &o.Etcd.Username }, username)},
	{name: "etcd-password", group: store, value: "TEXT", secret: true,
		about: "password of the etcd user; prefer --etcd-password-file",
		set:   into(func(o *Options) *Secret { return &o.Etcd.Password }, password)},
	{name: "etcd-password-file", group: store, value: "FILE",
		about: "file with the password of the etcd user",
		set:   into(func(o *Options) *string { return &o.Etcd.PasswordFile }, file)},
	{name: "subnet-lease-ttl", group: store, value: "DURATION", fallback: "24h",
		about: "lifetime of a lease without renewal",
		set:   into(func(o *Options) *time.Duration { return &o.LeaseTTL }, leaseTTL)},
	{name: "subnet-lease-renew-margin", group: store, value: "MINUTES", fallback: "60",
		about: "time that a lease must always have left",
		set:   into(func(o *Options) *time.Duration { return &o.RenewMargin }, minutes(1, 1439))},

	{name: "etcd-embedded", group: embedded, fallback: "false",
		about: "run an etcd on this host, and use it",
		set:   into(func(o *Options) *bool { return &o.Embedded.On }, truth)},
	{name: "etcd-listen", group: embedded, value: "URL", fallback: "http://127.0.0.1:2379",
		about: "URL of the embedded etcd",
		set:   into(func(o *Options) *string { return &o.Embedded.Listen }, listen)},
	{name: "network", group: embedded, value: "CIDR", many: true,
		about: "network for an empty embedded etcd; IPv4, IPv6 or both",
		set:   addNetworks},
	{name: "backend", group: embedded, value: "TYPE", fallback: "vxlan",
		about: "backend for --network",
		set:   into(func(o *Options) *string { return &o.Embedded.Backend }, backendType)},

	{name: "node-id", group: node, value: "TEXT",
		about: "lasting ID of this host (default /etc/machine-id)",
		set:   into(func(o *Options) *string { return &o.Node.ID }, label)},
	{name: "node-name", group: node, value: "TEXT",
		about: "name of this host in its lease (default the hostname)",
		set:   into(func(o *Options) *string { return &o.Node.Name }, label)},
	{name: "state-dir", group: node, value: "DIR", fallback: "/var/lib/tulle",
		about: "folder for state kept over reboots",
		set:   into(func(o *Options) *string { return &o.StateDir }, directory)},

	{name: "iface", group: uplink, value: "NAME|IP", many: true,
		about: "uplink: interface that faces the other hosts; repeatable",
		set:   add(func(o *Options) *[]string { return &o.Uplink.Ifaces }, iface)},
	{name: "iface-regex", group: uplink, value: "REGEX", many: true,
		about: "uplink by regular expression, after --iface; repeatable",
		set:   add(func(o *Options) *[]string { return &o.Uplink.IfaceRegexes }, pattern)},
	{name: "iface-can-reach", group: uplink, value: "IP",
		about: "uplink by the route to this address, tried last",
		set:   into(func(o *Options) *netip.Addr { return &o.Uplink.CanReach }, reachable)},
	{name: "public-ip", group: uplink, value: "IP",
		about: "IPv4 address to publish (default the uplink's)",
		set:   into(func(o *Options) *netip.Addr { return &o.Uplink.PublicIP[subnet.IPv4] }, public(subnet.IPv4))},
	{name: "public-ipv6", group: uplink, value: "IP",
		about: "IPv6 address to publish (default the uplink's)",
		set:   into(func(o *Options) *netip.Addr { return &o.Uplink.PublicIP[subnet.IPv6] }, public(subnet.IPv6))},

	{name: "iface-from-node-ip", group: uplink, fallback: "false",
		about: "uplink that has the Node's InternalIP",
		set:   into(func(o *Options) *bool { return &o.Uplink.FromNodeIP }, truth)},
	{name: "public-ip-from", group: uplink, value: "WHAT", fallback: "interface",
		about: "public IP: the interface's or external",
		set:   into(func(o *Options) *bool { return &o.Uplink.External }, publicFrom)},

	{name: "subnet-file", group: outputs, value: "FILE", fallback: "/run/flannel/subnet.env",
		about: "env file for runtimes",
		set:   into(func(o *Options) *string { return &o.SubnetFile }, file)},
	{name: "cni-conf-file", group: outputs, value: "FILE",
		about: "CNI configuration file to write (default none)",
		set:   into(func(o *Options) *string { return &o.CNIConfFile }, file)},
	{name: "ip-blackhole-route", group: outputs, fallback: "false",
		about: "drop packets to unused addresses of this host's subnet",
		set:   into(func(o *Options) *bool { return &o.BlackholeRoute }, truth)},

	{name: "ip-masq", group: filtering, fallback: "false",
		about: "masquerade what leaves the network; also =ipv4, =ipv6",
		set:   into(func(o *Options) *subnet.Pair[bool] { return &o.Filtering.Masquerade }, families)},
	{name: "no-masq-cidrs", group: filtering, value: "CIDRS", many: true,
		about: "networks not to masquerade to; comma-separated, repeatable",
		set:   addExempt},
	{name: "no-masq-cidrs-file", group: filtering, value: "FILE",
		about: "file of such networks, re-read when it changes",
		set:   into(func(o *Options) *string { return &o.Filtering.ExemptFile }, file)},
	{name: "ip-masq-fully-random-disable", group: filtering, fallback: "false",
		about: "masquerade without fully random ports",
		set:   into(func(o *Options) *bool { return &o.Filtering.PlainPorts }, truth)},
	{name: "iptables-forward-rules", group: filtering, fallback: "true",
		about: "accept the network in iptables' FORWARD",
		set:   into(func(o *Options) *bool { return &o.Filtering.Forward }, truth)},
	{name: "filter", group: filtering, value: "KIND", fallback: "auto",
		about: "firewall: nftables, iptables, none or auto",
		set:   into(func(o *Options) *Filter { return &o.Filtering.Filter }, filter)},
	{name: "iptables-resync", group: filtering, value: "SECONDS", fallback: "5",
		about: "poll interval of legacy iptables tables",
		set:   into(func(o *Options) *time.Duration { return &o.Filtering.Resync }, seconds(1, 1<<31-1))},

	{name: "kube-subnet-mgr", group: kubernetes, fallback: "false",
		about: "keep leases in Kubernetes Nodes instead of etcd",
		set:   into(func(o *Options) *bool { return &o.Kube.On }, truth)},
	{name: "kube-api-url", group: kubernetes, value: "URL",
		about: "API server (default the pod's cluster)",
		set:   into(func(o *Options) *string { return &o.Kube.Server }, apiURL)},
	{name: "kubeconfig-file", group: kubernetes, value: "FILE",
		about: "kubeconfig (default the pod's service account)",
		set:   into(func(o *Options) *string { return &o.Kube.Kubeconfig }, file)},
	{name: "kube-annotation-prefix", group: kubernetes, value: "PREFIX", fallback: "flannel.alpha.coreos.com",
		about: "prefix of annotations",
		set:   into(func(o *Options) *string { return &o.Kube.Prefix }, annotationPrefix)},
	{name: "net-config-path", group: kubernetes, value: "FILE", fallback: "/etc/kube-flannel/net-conf.json",
		about: "network config file",
		set:   into(func(o *Options) *string { return &o.Kube.ConfigFile }, file)},
	{name: "set-node-network-unavailable", group: kubernetes, fallback: "true",
		about: "set the NetworkUnavailable condition",
		set:   into(func(o *Options) *bool { return &o.Kube.SetNetworkUnavailable }, truth)},

	{name: "status-socket", group: health, value: "FILE", fallback: "/run/tulle/tulled.sock",
		about: "unix socket of tulled status",
		set:   into(func(o *Options) *string { return &o.StatusSocket }, file)},
	{name: "output", group: health, value: "FORMAT", fallback: "text",
		about: "output format: text, json or yaml",
		set:   into(func(o *Options) *Format { return &o.Output }, format)},
	{name: "healthz-ip", group: health, value: "IP", fallback: "127.0.0.1",
		about: "HTTP address for health and metrics",
		set:   into(func(o *Options) *netip.Addr { return &o.Health.Address }, address)},
	{name: "healthz-port", group: health, value: "PORT", fallback: "0",
		about: "HTTP port; 0 disables the server",
		set:   into(func(o *Options) *uint16 { return &o.Health.Port }, port)},
	{name: "pprof", group: health, fallback: "false",
		about: "serve profiles of the process over HTTP",
		set:   into(func(o *Options) *bool { return &o.Health.Pprof }, truth)},
	{name: "peer-metrics", group: health, fallback: "false",
		about: "serve metrics of each peer",
		set:   into(func(o *Options) *bool { return &o.Health.Peers }, truth)},
	{name: "probe-interval", group: health, value: "SECONDS", fallback: "5",
		about: "interval between probes of peers; 0 disables them",
		set:   into(func(o *Options) *time.Duration { return &o.Probes.Interval }, seconds(0, 86400))},
	{name: "probe-port", group: health, value: "PORT", fallback: "8479",
		about: "UDP port of probes, the same on all nodes",
		set:   into(func(o *Options) *uint16 { return &o.Probes.Port }, probePort)},

	{name: "v", group: logging, value: "LEVEL", fallback: "0",
		about: "log level",
		set:   into(func(o *Options) *int { return &o.Verbosity }, whole(0, 1<<31-1))},
	{name: "vmodule", group: logging, value: "FILE=LEVEL,…",
		about: "log level by source file",
		set:   into(func(o *Options) *string { return &o.VModule }, vmodule)},
	{name: "log_backtrace_at", group: logging, value: "FILE:LINE",
		about: "source line at which to log a stack trace",
		set:   into(func(o *Options) *string { return &o.BacktraceAt }, sourceLine)},

	{name: "dry-run", group: other, fallback: "false",
		about: "cleanup: list what it would remove",
		set:   into(func(o *Options) *bool { return &o.Cleanup.DryRun }, truth)},
	{name: "flannel", group: other, fallback: "false",
		about: "cleanup: remove flannel's devices and rules too",
		set:   into(func(o *Options) *bool { return &o.Cleanup.Flannel }, truth)},
	{name: "cni-plugins", group: other, value: "DIR", fallback: "/cni",
		about: "install-cni: folder with the plugins",
		set:   into(func(o *Options) *string { return &o.Plugins.From }, directory)},
	{name: helpFlag, group: other, fallback: "false", about: "print this help", set: checked(truth)},
	{name: versionFlag, group: other, fallback: "false", about: "print the version", set: checked(truth)},
}

const (
	helpFlag    = "help"
	versionFlag = "version"
)

// find returns the flag of a name.
func find(name string) (flag, bool) {
	for _, f := range table {
		if f.name == name {
			return f, true
		}
	}
	return flag{}, false
}

func names() []string {
	var all []string
	for _, f := range table {
		all = append(all, f.name)
	}
	return all
}

// written returns the name with its dashes.
func (f flag) written() string {
	if len(f.name) == 1 {
		return "-" + f.name
	}
	return "--" + f.name
}

// into returns a setter that stores what read makes of the value in a field.
func into[T any](field func(*Options) *T, read func(string) (T, error)) func(*Options, string) error {
	return func(o *Options, value string) (err error) {
		*field(o), err = read(value)
		return err
	}
}

// add returns a setter that appends to a field.
func add[T any](field func(*Options) *[]T, read func(string) (T, error)) func(*Options, string) error {
	return func(o *Options, value string) error {
		v, err := read(value)
		*field(o) = append(*field(o), v)
		return err
	}
}

// checked returns a setter for a flag that takes effect before all others are read.
func checked[T any](read func(string) (T, error)) func(*Options, string) error {
	return func(_ *Options, value string) error {
		_, err := read(value)
		return err
	}
}
