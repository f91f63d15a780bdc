package options

import (
	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/etcdflags"
	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/subnet"
)

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
	ofCommands = "Commands"
	other      = "Other"
)

// table returns every flag, in the order of the help. The flags set o.
func table(o *Options, backends []string) []flags.Flag {
	return append(o.Etcd.Flags(store,
		flags.Flag{Name: "etcd-endpoints", Default: "http://127.0.0.1:2379"},
		flags.Flag{Name: "etcd-certfile", About: "certificate for etcd: client's, or embedded server's"},
	), []flags.Flag{
		{Name: "subnet-lease-ttl", Group: store, Value: "DURATION", Default: "24h",
			About: "lifetime of a lease without renewal",
			Set:   flags.To(&o.LeaseTTL, leaseTTL)},
		{Name: "subnet-lease-renew-margin", Group: store, Value: "MINUTES", Default: "60",
			About: "time that a lease must always have left",
			Set:   flags.To(&o.RenewMargin, minutes(1, 1439))},

		{Name: "etcd-embedded", Group: embedded, Default: "false",
			About: "run an etcd on this host, and use it",
			Set:   flags.To(&o.Embedded.On, flags.Bool)},
		{Name: "etcd-listen", Group: embedded, Value: "URL", Default: "http://127.0.0.1:2379",
			About: "URL of the embedded etcd",
			Set:   flags.To(&o.Embedded.Listen, etcdflags.Listen)},
		{Name: "etcd-listen-without-client-certs", Group: embedded, Default: "false",
			About: "let clients without a certificate in; unsafe",
			Set:   flags.To(&o.Embedded.AnyClient, flags.Bool)},
		{Name: "network", Group: embedded, Value: "CIDR", Many: true,
			About: "network for an empty embedded etcd; IPv4, IPv6 or both",
			Set:   o.addNetworks},
		{Name: "backend", Group: embedded, Value: "TYPE", Default: "vxlan",
			About:   "backend for --network",
			Choices: backends,
			Set:     flags.To(&o.Embedded.Backend, backendType(backends))},

		{Name: "node-id", Group: node, Value: "TEXT",
			About: "lasting ID of this host (default /etc/machine-id)",
			Set:   flags.To(&o.Node.ID, label)},
		{Name: "node-name", Group: node, Value: "TEXT",
			About: "name of this host in its lease (default the hostname)",
			Set:   flags.To(&o.Node.Name, label)},
		{Name: "state-dir", Group: node, Value: "DIR", Default: "/var/lib/tulle",
			About: "folder for state kept over reboots",
			Set:   flags.To(&o.StateDir, flags.Folder)},
		{Name: "allow-extension", Group: node, Default: "false",
			About: "run the commands of the network's config, as root",
			Set:   flags.To(&o.AllowExtension, flags.Bool)},

		{Name: "iface", Group: uplink, Value: "NAME|IP", Many: true,
			About:      "uplink: interface that faces the other hosts; repeatable",
			Interfaces: true,
			Set:        flags.Append(&o.Uplink.Ifaces, iface)},
		{Name: "iface-regex", Group: uplink, Value: "REGEX", Many: true,
			About: "uplink by regular expression, after --iface; repeatable",
			Set:   flags.Append(&o.Uplink.IfaceRegexes, pattern)},
		{Name: "iface-can-reach", Group: uplink, Value: "IP",
			About: "uplink by the route to this address, tried last",
			Set:   flags.To(&o.Uplink.CanReach, reachable)},
		{Name: "public-ip", Group: uplink, Value: "IP",
			About: "IPv4 address to publish (default the uplink's)",
			Set:   flags.To(&o.Uplink.PublicIP[subnet.IPv4], public(subnet.IPv4))},
		{Name: "public-ipv6", Group: uplink, Value: "IP",
			About: "IPv6 address to publish (default the uplink's)",
			Set:   flags.To(&o.Uplink.PublicIP[subnet.IPv6], public(subnet.IPv6))},

		{Name: "iface-from-node-ip", Group: uplink, Default: "false",
			About: "uplink that has the Node's InternalIP",
			Set:   flags.To(&o.Uplink.FromNodeIP, flags.Bool)},
		{Name: "public-ip-from", Group: uplink, Value: "WHAT", Default: "interface",
			About:   "public IP: the interface's or external",
			Choices: []string{"interface", "external"},
			Set:     flags.To(&o.Uplink.External, publicFrom)},

		{Name: "subnet-file", Group: outputs, Value: "FILE", Default: "/run/flannel/subnet.env",
			About: "env file for runtimes",
			Set:   flags.To(&o.SubnetFile, flags.File)},
		{Name: "cni-conf-file", Group: outputs, Value: "FILE",
			About: "CNI configuration file to write (default none)",
			Set:   flags.To(&o.CNIConfFile, flags.File)},
		{Name: "ip-blackhole-route", Group: outputs, Default: "false",
			About: "drop packets to unused addresses of this host's subnet",
			Set:   flags.To(&o.BlackholeRoute, flags.Bool)},

		{Name: "ip-masq", Group: filtering, Default: "false",
			About:   "masquerade what leaves the network; also =ipv4, =ipv6",
			Choices: []string{"true", "false", "ipv4", "ipv6"},
			Set:     flags.To(&o.Filtering.Masquerade, families)},
		{Name: "no-masq-cidrs", Group: filtering, Value: "CIDRS", Many: true,
			About: "networks not to masquerade to; comma-separated, repeatable",
			Set:   o.addExempt},
		{Name: "no-masq-cidrs-file", Group: filtering, Value: "FILE",
			About: "file of such networks, re-read when it changes",
			Set:   flags.To(&o.Filtering.ExemptFile, flags.File)},
		{Name: "ip-masq-fully-random-disable", Group: filtering, Default: "false",
			About: "masquerade without fully random ports",
			Set:   flags.To(&o.Filtering.PlainPorts, flags.Bool)},
		{Name: "iptables-forward-rules", Group: filtering, Default: "true",
			About: "accept the network in iptables' FORWARD",
			Set:   flags.To(&o.Filtering.Forward, flags.Bool)},
		{Name: "filter", Group: filtering, Value: "KIND", Default: "auto",
			About:   "firewall: nftables, iptables, none or auto",
			Choices: []string{string(FilterAuto), string(FilterNFTables), string(FilterIPTables), string(FilterNone)},
			Set:     flags.To(&o.Filtering.Filter, filter)},
		{Name: "iptables-resync", Group: filtering, Value: "SECONDS", Default: "5",
			About: "poll interval of legacy iptables tables",
			Set:   flags.To(&o.Filtering.Resync, seconds(1, 1<<31-1))},

		{Name: "kube-subnet-mgr", Group: kubernetes, Default: "false",
			About: "keep leases in Kubernetes Nodes instead of etcd",
			Set:   flags.To(&o.Kube.On, flags.Bool)},
		{Name: "kube-api-url", Group: kubernetes, Value: "URL",
			About: "API server (default the pod's cluster)",
			Set:   flags.To(&o.Kube.Server, apiURL)},
		{Name: "kubeconfig-file", Group: kubernetes, Value: "FILE",
			About: "kubeconfig (default the pod's service account)",
			Set:   flags.To(&o.Kube.Kubeconfig, flags.File)},
		{Name: "kube-annotation-prefix", Group: kubernetes, Value: "PREFIX", Default: "flannel.alpha.coreos.com",
			About: "prefix of annotations",
			Set:   flags.To(&o.Kube.Prefix, annotationPrefix)},
		{Name: "net-config-path", Group: kubernetes, Value: "FILE", Default: "/etc/kube-flannel/net-conf.json",
			About: "network config file",
			Set:   flags.To(&o.Kube.ConfigFile, flags.File)},
		{Name: "set-node-network-unavailable", Group: kubernetes, Default: "true",
			About: "set the NetworkUnavailable condition",
			Set:   flags.To(&o.Kube.SetNetworkUnavailable, flags.Bool)},

		{Name: "status-socket", Group: health, Value: "FILE", Default: "/run/tulle/tulled.sock",
			About: "unix socket of tulled status",
			Set:   flags.To(&o.StatusSocket, flags.File)},
		flags.HTTPAddress(&o.Health.Address).In(health),
		flags.HTTPPort(&o.Health.Port, "0").In(health),
		flags.Pprof(&o.Health.Pprof).In(health),
		{Name: "peer-metrics", Group: health, Default: "false",
			About: "serve metrics of each peer",
			Set:   flags.To(&o.Health.Peers, flags.Bool)},
		{Name: "probe-interval", Group: health, Value: "SECONDS", Default: "5",
			About: "interval between probes of peers; 0 disables them",
			Set:   flags.To(&o.Probes.Interval, seconds(0, 86400))},
		{Name: "probe-port", Group: health, Value: "PORT", Default: "8479",
			About: "UDP port of probes, the same on all nodes",
			Set:   flags.To(&o.Probes.Port, probePort)},

		flags.LogLevel(&o.Verbosity, "log level").In(logging),
		{Name: "vmodule", Group: logging, Value: "FILE=LEVEL,…",
			About: "log level by source file",
			Set:   flags.To(&o.VModule, vmodule)},
		{Name: "log_backtrace_at", Group: logging, Value: "FILE:LINE",
			About: "source line at which to log a stack trace",
			Set:   flags.To(&o.BacktraceAt, sourceLine)},

		{Name: "output", Group: ofCommands, Value: "FORMAT", Default: "text",
			About:   "output format: text, json or yaml",
			Choices: answer.Formats(),
			Only:    []string{"status", "peers", "explain", "leases", "check-config", "bugreport", "cleanup", "rotate-key", "install-cni", "version"},
			Set:     flags.To(&o.Output, answer.ReadFormat)},
		{Name: "wait", Group: ofCommands, Default: "false", Only: []string{"status"},
			About: "wait until it is ready; =30s waits that long at most",
			Set:   flags.To(&o.Wait, wait)},
		{Name: "watch", Group: ofCommands, Default: "false", Only: []string{"status"},
			About: "write the state every second until interrupted",
			Set:   flags.To(&o.Watch, flags.Bool)},
		{Name: "failing", Group: ofCommands, Default: "false", Only: []string{"peers"},
			About: "list only peers with a problem",
			Set:   flags.To(&o.Peers.Failing, flags.Bool)},
		{Name: "narrow", Group: ofCommands, Default: "false", Only: []string{"peers"},
			About: "write two short lines a peer, as on a narrow terminal",
			Set:   flags.To(&o.Peers.Narrow, flags.Bool)},
		{Name: "strict", Group: ofCommands, Default: "false", Only: []string{"check-config"},
			About: "fail on warnings, too",
			Set:   flags.To(&o.Strict, flags.Bool)},
		{Name: "dry-run", Group: ofCommands, Default: "false", Only: []string{"cleanup"},
			About: "list what it would remove",
			Set:   flags.To(&o.Cleanup.DryRun, flags.Bool)},
		{Name: "flannel", Group: ofCommands, Default: "false", Only: []string{"cleanup"},
			About: "remove flannel's devices and rules too",
			Set:   flags.To(&o.Cleanup.Flannel, flags.Bool)},
		{Name: "cni-plugins", Group: ofCommands, Value: "DIR", Default: "/cni", Only: []string{"install-cni"},
			About: "folder with the plugins",
			Set:   flags.To(&o.Plugins.From, flags.Folder)},

		flags.Help.In(other),
		flags.Version.In(other),
	}...)
}
