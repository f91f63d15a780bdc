package options

import (
	"net/netip"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// flag is all that is known about one flag, and about its variables.
type flag struct {
	name  string
	group string // its heading in the help
	// value is what the help calls the value; a truth value has none, and
	// --name alone means true.
	value    string
	about    string // fits on its line
	fallback string // the default, as one would write it
	many     bool   // given again it adds; else the last counts
	secret   bool   // its value is never shown
	set      func(o *Options, value string) error
}

func (f flag) truth() bool { return f.value == "" }

// The help's headings.
const (
	store      = "Store"
	embedded   = "Embedded etcd"
	node       = "Node"
	uplink     = "Interface"
	outputs    = "Outputs"
	filtering  = "Filtering"
	kubernetes = "Kubernetes"
	health     = "Health"
	logging    = "Logging"
	other      = "Other"
)

// table has every flag, in the order of the help.
var table = []flag{
	{name: "etcd-endpoints", group: store, value: "URLS", fallback: "http://127.0.0.1:2379",
		about: "URLs of etcd, comma-separated",
		set:   into(func(o *Options) *[]string { return &o.Etcd.Endpoints }, endpoints)},
	{name: "etcd-prefix", group: store, value: "KEY", fallback: "/coreos.com/network",
		about: "prefix of all keys",
		set:   into(func(o *Options) *string { return &o.Etcd.Prefix }, prefix)},
	{name: "etcd-cafile", group: store, value: "FILE",
		about: "CA certificates that etcd's must be signed by",
		set:   into(func(o *Options) *string { return &o.Etcd.CAFile }, file)},
	{name: "etcd-certfile", group: store, value: "FILE",
		about: "certificate to show to etcd",
		set:   into(func(o *Options) *string { return &o.Etcd.CertFile }, file)},
	{name: "etcd-keyfile", group: store, value: "FILE",
		about: "private key of that certificate",
		set:   into(func(o *Options) *string { return &o.Etcd.KeyFile }, file)},
	{name: "etcd-username", group: store, value: "NAME",
		about: "user of etcd",
		set:   into(func(o *Options) *string { return &o.Etcd.Username }, username)},
	{name: "etcd-password", group: store, value: "TEXT", secret: true,
		about: "the user's password; shows in ps, so better a file",
		set:   into(func(o *Options) *Secret { return &o.Etcd.Password }, password)},
	{name: "etcd-password-file", group: store, value: "FILE",
		about: "file with the user's password",
		set:   into(func(o *Options) *string { return &o.Etcd.PasswordFile }, file)},
	{name: "subnet-lease-ttl", group: store, value: "DURATION", fallback: "24h",
		about: "life of a lease that nobody renews",
		set:   into(func(o *Options) *time.Duration { return &o.LeaseTTL }, leaseTTL)},
	{name: "subnet-lease-renew-margin", group: store, value: "MINUTES", fallback: "60",
		about: "how much of that must always be left",
		set:   into(func(o *Options) *time.Duration { return &o.RenewMargin }, minutes(1, 1439))},

	{name: "etcd-embedded", group: embedded, fallback: "false",
		about: "run an etcd inside tulled, and use it",
		set:   into(func(o *Options) *bool { return &o.Embedded.On }, truth)},
	{name: "etcd-listen", group: embedded, value: "URL", fallback: "http://127.0.0.1:2379",
		about: "where it serves",
		set:   into(func(o *Options) *string { return &o.Embedded.Listen }, listen)},
	{name: "network", group: embedded, value: "CIDR", many: true,
		about: "network for an empty etcd; IPv4, IPv6 or both",
		set:   addNetworks},
	{name: "backend", group: embedded, value: "TYPE", fallback: "vxlan",
		about: "backend for --network",
		set:   into(func(o *Options) *string { return &o.Embedded.Backend }, backendType)},

	{name: "node-id", group: node, value: "TEXT",
		about: "lasting identity of this host (default /etc/machine-id)",
		set:   into(func(o *Options) *string { return &o.Node.ID }, label)},
	{name: "node-name", group: node, value: "TEXT",
		about: "name of this host, for people (default the hostname)",
		set:   into(func(o *Options) *string { return &o.Node.Name }, label)},
	{name: "state-dir", group: node, value: "DIR", fallback: "/var/lib/tulle",
		about: "folder for what outlives a reboot",
		set:   into(func(o *Options) *string { return &o.StateDir }, directory)},

	{name: "iface", group: uplink, value: "NAME|IP", many: true,
		about: "interface that faces the other hosts; repeatable",
		set:   add(func(o *Options) *[]string { return &o.Uplink.Ifaces }, iface)},
	{name: "iface-regex", group: uplink, value: "REGEX", many: true,
		about: "the same by pattern, tried after --iface; repeatable",
		set:   add(func(o *Options) *[]string { return &o.Uplink.IfaceRegexes }, pattern)},
	{name: "iface-can-reach", group: uplink, value: "IP",
		about: "the same by the route to an address, tried last",
		set:   into(func(o *Options) *netip.Addr { return &o.Uplink.CanReach }, reachable)},
	{name: "public-ip", group: uplink, value: "IP",
		about: "IPv4 address others send to (default the interface's)",
		set:   into(func(o *Options) *netip.Addr { return &o.Uplink.PublicIP[subnet.IPv4] }, public(subnet.IPv4))},
	{name: "public-ipv6", group: uplink, value: "IP",
		about: "IPv6 address others send to (default the interface's)",
		set:   into(func(o *Options) *netip.Addr { return &o.Uplink.PublicIP[subnet.IPv6] }, public(subnet.IPv6))},

	{name: "iface-from-node-ip", group: uplink, fallback: "false",
		about: "the one that has the Node's InternalIP",
		set:   into(func(o *Options) *bool { return &o.Uplink.FromNodeIP }, truth)},
	{name: "public-ip-from", group: uplink, value: "WHAT", fallback: "interface",
		about: "interface, or external: the Node's",
		set:   into(func(o *Options) *bool { return &o.Uplink.External }, publicFrom)},

	{name: "subnet-file", group: outputs, value: "FILE", fallback: "/run/flannel/subnet.env",
		about: "env file for runtimes",
		set:   into(func(o *Options) *string { return &o.SubnetFile }, file)},
	{name: "cni-conf-file", group: outputs, value: "FILE",
		about: "CNI config to write (default none)",
		set:   into(func(o *Options) *string { return &o.CNIConfFile }, file)},
	{name: "ip-blackhole-route", group: outputs, fallback: "false",
		about: "drop packets for addresses that no container has",
		set:   into(func(o *Options) *bool { return &o.BlackholeRoute }, truth)},

	{name: "ip-masq", group: filtering, fallback: "false",
		about: "masquerade what leaves the network; also =ipv4, =ipv6",
		set:   into(func(o *Options) *subnet.Pair[bool] { return &o.Filtering.Masquerade }, families)},
	{name: "no-masq-cidrs", group: filtering, value: "CIDRS", many: true,
		about: "but not to these; comma-separated, repeatable",
		set:   addExempt},
	{name: "no-masq-cidrs-file", group: filtering, value: "FILE",
		about: "nor to those listed there, read again when it changes",
		set:   into(func(o *Options) *string { return &o.Filtering.ExemptFile }, file)},
	{name: "ip-masq-fully-random-disable", group: filtering, fallback: "false",
		about: "masquerade without fully random ports",
		set:   into(func(o *Options) *bool { return &o.Filtering.PlainPorts }, truth)},
	{name: "iptables-forward-rules", group: filtering, fallback: "true",
		about: "have iptables let the network pass",
		set:   into(func(o *Options) *bool { return &o.Filtering.Forward }, truth)},
	{name: "filter", group: filtering, value: "KIND", fallback: "auto",
		about: "rules are nftables, iptables, none, or auto",
		set:   into(func(o *Options) *Filter { return &o.Filtering.Filter }, filter)},
	{name: "iptables-resync", group: filtering, value: "SECONDS", fallback: "5",
		about: "how often to look after iptables' rules",
		set:   into(func(o *Options) *time.Duration { return &o.Filtering.Resync }, seconds(1, 1<<31-1))},

	{name: "kube-subnet-mgr", group: kubernetes, fallback: "false",
		about: "keep leases in Kubernetes' Nodes, not in etcd",
		set:   into(func(o *Options) *bool { return &o.Kube.On }, truth)},
	{name: "kube-api-url", group: kubernetes, value: "URL",
		about: "API server (default the pod's own cluster's)",
		set:   into(func(o *Options) *string { return &o.Kube.Server }, apiURL)},
	{name: "kubeconfig-file", group: kubernetes, value: "FILE",
		about: "kubeconfig (default the pod's service account)",
		set:   into(func(o *Options) *string { return &o.Kube.Kubeconfig }, file)},
	{name: "kube-annotation-prefix", group: kubernetes, value: "PREFIX", fallback: "flannel.alpha.coreos.com",
		about: "prefix of annotations",
		set:   into(func(o *Options) *string { return &o.Kube.Prefix }, annotationPrefix)},
	{name: "net-config-path", group: kubernetes, value: "FILE", fallback: "/etc/kube-flannel/net-conf.json",
		about: "network config",
		set:   into(func(o *Options) *string { return &o.Kube.ConfigFile }, file)},
	{name: "set-node-network-unavailable", group: kubernetes, fallback: "true",
		about: "set the Node's condition",
		set:   into(func(o *Options) *bool { return &o.Kube.SetNetworkUnavailable }, truth)},

	{name: "status-socket", group: health, value: "FILE", fallback: "/run/tulle/tulled.sock",
		about: "where tulled status asks",
		set:   into(func(o *Options) *string { return &o.StatusSocket }, file)},
	{name: "output", group: health, value: "FORMAT", fallback: "text",
		about: "how they answer: text, json, yaml",
		set:   into(func(o *Options) *Format { return &o.Output }, format)},
	{name: "healthz-ip", group: health, value: "IP", fallback: "127.0.0.1",
		about: "address of health, metrics and a page",
		set:   into(func(o *Options) *netip.Addr { return &o.Health.Address }, address)},
	{name: "healthz-port", group: health, value: "PORT", fallback: "0",
		about: "their port; 0 is no server",
		set:   into(func(o *Options) *uint16 { return &o.Health.Port }, port)},
	{name: "pprof", group: health, fallback: "false",
		about: "profiles of the process there too",
		set:   into(func(o *Options) *bool { return &o.Health.Pprof }, truth)},
	{name: "peer-metrics", group: health, fallback: "false",
		about: "metrics of each peer there too",
		set:   into(func(o *Options) *bool { return &o.Health.Peers }, truth)},
	{name: "probe-interval", group: health, value: "SECONDS", fallback: "5",
		about: "how often to probe a few peers; 0 is never",
		set:   into(func(o *Options) *time.Duration { return &o.Probes.Interval }, seconds(0, 86400))},
	{name: "probe-port", group: health, value: "PORT", fallback: "8479",
		about: "UDP port for that, the same on all nodes",
		set:   into(func(o *Options) *uint16 { return &o.Probes.Port }, probePort)},

	{name: "v", group: logging, value: "LEVEL", fallback: "0",
		about: "log level",
		set:   into(func(o *Options) *int { return &o.Verbosity }, whole(0, 1<<31-1))},
	{name: "vmodule", group: logging, value: "FILE=LEVEL,…",
		about: "log levels by source file",
		set:   into(func(o *Options) *string { return &o.VModule }, vmodule)},
	{name: "log_backtrace_at", group: logging, value: "FILE:LINE",
		about: "source line to log a stack trace at",
		set:   into(func(o *Options) *string { return &o.BacktraceAt }, sourceLine)},

	{name: "dry-run", group: other, fallback: "false",
		about: "with cleanup: say what it would remove",
		set:   into(func(o *Options) *bool { return &o.Cleanup.DryRun }, truth)},
	{name: "flannel", group: other, fallback: "false",
		about: "with cleanup: remove flannel's devices and rules too",
		set:   into(func(o *Options) *bool { return &o.Cleanup.Flannel }, truth)},
	{name: "cni-plugins", group: other, value: "DIR", fallback: "/cni",
		about: "with install-cni: folder with the plugins",
		set:   into(func(o *Options) *string { return &o.Plugins.From }, directory)},
	{name: helpFlag, group: other, fallback: "false", about: "print this", set: checked(truth)},
	{name: versionFlag, group: other, fallback: "false", about: "print the version", set: checked(truth)},
}

const (
	helpFlag    = "help"
	versionFlag = "version"
)

// find is the flag of a name.
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

// written is the name with its dashes, as people write it.
func (f flag) written() string {
	if len(f.name) == 1 {
		return "-" + f.name
	}
	return "--" + f.name
}

// into is a flag that sets a field to what read makes of the value.
func into[T any](field func(*Options) *T, read func(string) (T, error)) func(*Options, string) error {
	return func(o *Options, value string) (err error) {
		*field(o), err = read(value)
		return err
	}
}

// add is a flag that adds to a field.
func add[T any](field func(*Options) *[]T, read func(string) (T, error)) func(*Options, string) error {
	return func(o *Options, value string) error {
		v, err := read(value)
		*field(o) = append(*field(o), v)
		return err
	}
}

// checked is a flag whose value counts before all others are read.
func checked[T any](read func(string) (T, error)) func(*Options, string) error {
	return func(_ *Options, value string) error {
		_, err := read(value)
		return err
	}
}
