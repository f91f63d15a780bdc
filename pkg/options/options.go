package options

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/subnet"
)

// Options is what tulled was told, checked as far as it can be without a look
// at the host.
type Options struct {
	Command Command
	// ConfigFile is what CheckConfig reads; "" is standard input.
	ConfigFile string
	Strict     bool // CheckConfig fails on warnings, too
	// Address is what Explain is asked about, and Output how it, Status and Peers
	// answer.
	Address netip.Addr
	Output  Format
	Topic   string // the command that ShowHelp explains; "" is all
	Shell   string // whose completions ShowCompletion writes
	Cleanup Cleanup
	Peers   PeerList
	// Wait is how long Status waits until the daemon is ready, and Watch makes it
	// write again and again.
	Wait  time.Duration
	Watch bool
	// ReportFile is where BugReport writes; "" is a file named for the time.
	ReportFile string
	Plugins    Plugins
	// StatusSocket is where the daemon answers them; "" is nowhere.
	StatusSocket string
	Health       Health
	Probes       Probes

	Etcd     Etcd
	Embedded Embedded
	Kube     Kube
	Node     Node
	Uplink   Uplink

	SubnetFile     string // the env file
	CNIConfFile    string // "" is none
	StateDir       string
	BlackholeRoute bool

	Filtering Filtering

	LeaseTTL time.Duration // whole seconds
	// RenewMargin is how much of LeaseTTL must always be left, less than all.
	RenewMargin time.Duration

	Verbosity   int    // klog's flag v
	VModule     string // klog's flag vmodule
	BacktraceAt string // klog's flag log_backtrace_at

	// Given is what was told by a flag or a variable, as one would write it,
	// without secrets.
	Given []string
	// Warnings are lines for the log.
	Warnings []string
}

// String is Given on one line, for the log.
func (o Options) String() string { return strings.Join(o.Given, " ") }

// Command is what tulled is to do.
type Command int

// The zero Command is the daemon.
const (
	Run Command = iota
	CheckConfig
	Leases
	Status
	Peers
	Explain
	CleanUp
	InstallCNI
	BugReport
	ShowManPage
	ShowCompletion
	ShowVersion
	ShowHelp
)

// Cleanup says what CleanUp is to remove.
type Cleanup struct {
	DryRun  bool // and only say it
	Flannel bool // also what flannel left
}

// PeerList says which peers Peers lists, and how.
type PeerList struct {
	Match   string // those that this names; "" is all
	Failing bool   // those with a problem only
	Narrow  bool   // in two short lines a peer
}

// Plugins says what InstallCNI is to install, and where.
type Plugins struct{ From, To string }

// Format is how answers are written.
type Format string

// The formats.
const (
	Text Format = "text"
	JSON Format = "json"
	YAML Format = "yaml"
)

// Etcd is how to reach the store.
type Etcd struct {
	// Endpoints are http or https URLs of a host and a port, or unix or unixs
	// URLs of a path. With Embedded there are none, but for Leases, which asks
	// the daemon's.
	Endpoints []string
	// Prefix is clean: joining a key to it with a slash is what flannel does.
	Prefix                    string
	CAFile, CertFile, KeyFile string
	// Username comes with either Password or PasswordFile.
	Username     string
	Password     flags.Secret
	PasswordFile string
}

// Embedded is the etcd that tulled keeps running on this host.
type Embedded struct {
	On bool
	// Listen is a URL of an address, or localhost, and a port: http on
	// loopback, or https, with Etcd's CertFile and KeyFile. Or it is a unix or
	// unixs URL of an absolute path.
	Listen string
	// AnyClient allows clients without a certificate where Listen is beyond loopback.
	AnyClient bool
	// Networks and Backend are what an empty store begins with, see
	// Options.Seed. Without a network it begins empty.
	Networks subnet.Pair[netip.Prefix]
	Backend  string
}

// Kube is how to reach Kubernetes, where that keeps the leases.
type Kube struct {
	On bool
	// Server is a URL, and Kubeconfig a path; without either tulled runs in a pod of
	// the cluster.
	Server, Kubeconfig string
	// NodeName is the Node that this host is, or PodName and PodNamespace say which
	// runs on it.
	NodeName, PodNamespace, PodName string
	Prefix                          string // of annotations
	ConfigFile                      string
	SetNetworkUnavailable           bool
}

// Node is who this host is; what is empty the host itself knows. In Kubernetes it
// is its Node, and both are empty.
type Node struct{ ID, Name string }

// Health is where the daemon serves health, metrics and its status page over HTTP.
type Health struct {
	Address netip.Addr
	Port    uint16 // 0 is nowhere
	Pprof   bool   // profiles of the process too
	Peers   bool   // metrics of each peer too
}

// Probes are packets that are to come back from the peers.
type Probes struct {
	Interval time.Duration // 0 is never
	Port     uint16        // where the nodes answer one another
}

// Filtering is what the host's firewall is to do.
type Filtering struct {
	Filter Filter
	// Masquerade is where containers leave the network with an address of the
	// host, but to Exempt and to what ExemptFile lists.
	Masquerade subnet.Pair[bool]
	Exempt     []netip.Prefix
	ExemptFile string
	// PlainPorts leaves the choice of ports to the kernel's own, foreseeable way.
	PlainPorts bool
	Forward    bool
	Resync     time.Duration // poll interval of legacy iptables
}

// Masquerades reports whether any family is masqueraded.
func (f Filtering) Masquerades() bool {
	return slices.Contains(f.Masquerade[:], true)
}

// Filter is by what the host's firewall is told.
type Filter string

// The filters.
const (
	FilterAuto     Filter = "auto"
	FilterNFTables Filter = "nftables"
	FilterIPTables Filter = "iptables"
	FilterNone     Filter = "none"
)

// Uplink is what leads to the interface that faces the other hosts.
type Uplink struct {
	Ifaces       []string // names or addresses
	IfaceRegexes []string
	CanReach     netip.Addr
	PublicIP     subnet.Pair[netip.Addr]
	FromNodeIP   bool // the interface is the one that has the Node's InternalIP
	External     bool // PublicIP is the Node's ExternalIP, where it has one
}
