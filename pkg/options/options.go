package options

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/etcdflags"
	"github.com/tulle-net/tulle/subnet"
)

// Options are tulled's settings, checked as far as possible without a look at the
// host.
type Options struct {
	Command Command
	// ConfigFile is what CheckConfig reads; "" is standard input.
	ConfigFile string
	Strict     bool // CheckConfig also fails on warnings
	// Address is the address that Explain explains. Output is the format in which
	// Explain, Status and Peers answer.
	Address netip.Addr
	Output  answer.Format
	Topic   string // the command that ShowHelp explains; "" means all
	Shell   string // whose completions ShowCompletion writes
	Cleanup Cleanup
	Peers   PeerList
	// Wait is how long Status waits until the daemon is ready. Watch makes it write
	// repeatedly.
	Wait  time.Duration
	Watch bool
	// ReportFile is where BugReport writes; "" means a file named for the time.
	ReportFile string
	Plugins    Plugins
	// StatusSocket is where the daemon answers them; "" means nowhere.
	StatusSocket string
	Health       Health
	Probes       Probes

	Etcd     etcdflags.Etcd
	Embedded Embedded
	Kube     Kube
	Node     Node
	Uplink   Uplink

	SubnetFile     string // the env file
	CNIConfFile    string // "" means none
	StateDir       string
	AllowExtension bool // run the commands of the network's config
	BlackholeRoute bool

	Filtering Filtering

	LeaseTTL time.Duration // whole seconds
	// RenewMargin is how much of LeaseTTL must always be left. It is less than LeaseTTL.
	RenewMargin time.Duration

	Verbosity   int    // klog's flag v
	VModule     string // klog's flag vmodule
	BacktraceAt string // klog's flag log_backtrace_at

	// Given are the flags and variables that were set, as a person would write them,
	// without secrets.
	Given []string
	// Warnings are lines for the log.
	Warnings []string
}

// String returns Given on one line, for the log.
func (o Options) String() string { return strings.Join(o.Given, " ") }

// Command is what tulled does.
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
	RotateKey
	InstallCNI
	BugReport
	ShowManPage
	ShowCompletion
	ShowVersion
	ShowHelp
)

// Cleanup is what CleanUp removes.
type Cleanup struct {
	DryRun  bool // only list it
	Flannel bool // also what flannel left
}

// PeerList is which peers Peers lists, and how.
type PeerList struct {
	Match   string // those whose names match; "" means all
	Failing bool   // only those with a problem
	Narrow  bool   // in two short lines per peer
}

// Plugins are the folders from and to which InstallCNI installs.
type Plugins struct{ From, To string }

// Embedded is the etcd that tulled keeps running on this host.
type Embedded struct {
	On bool
	// Listen is a URL of an address, or localhost, and a port: http on loopback, or https
	// with Etcd's CertFile and KeyFile. Alternatively it is a unix or unixs URL of an
	// absolute path.
	Listen string
	// AnyClient allows clients without a certificate if Listen is beyond loopback.
	AnyClient bool
	// Networks and Backend are the first config of an empty store, see Options.Seed.
	// Without a network it begins empty.
	Networks subnet.Pair[netip.Prefix]
	Backend  string
}

// Kube is how to reach Kubernetes, if that keeps the leases.
type Kube struct {
	On bool
	// Server is a URL, and Kubeconfig a path. Without either, tulled runs in a pod of the
	// cluster.
	Server, Kubeconfig string
	// NodeName is the Node that this host is. Otherwise PodName and PodNamespace name a
	// pod that runs on it.
	NodeName, PodNamespace, PodName string
	Prefix                          string // of annotations
	ConfigFile                      string
	SetNetworkUnavailable           bool
}

// Node identifies this host. The host itself knows what is empty. In Kubernetes the
// host is its Node, and both are empty.
type Node struct{ ID, Name string }

// Health is where the daemon serves health, metrics and its status page over HTTP.
type Health struct {
	Address netip.Addr
	Port    uint16 // 0 means nowhere
	Pprof   bool   // also profiles of the process
	Peers   bool   // also metrics of each peer
}

// Probes are packets that the peers send back.
type Probes struct {
	Interval time.Duration // 0 means never
	Port     uint16        // where the nodes answer one another
}

// Filtering is what the host's firewall does.
type Filtering struct {
	Filter Filter
	// Masquerade is the families in which containers leave the network with an address of
	// the host, except to Exempt and to what ExemptFile lists.
	Masquerade subnet.Pair[bool]
	Exempt     []netip.Prefix
	ExemptFile string
	// PlainPorts leaves the choice of ports to the kernel's own, predictable way.
	PlainPorts bool
	Forward    bool
	Resync     time.Duration // poll interval of legacy iptables
}

// Masquerades reports whether any family is masqueraded.
func (f Filtering) Masquerades() bool {
	return slices.Contains(f.Masquerade[:], true)
}

// Filter is the interface to the host's firewall.
type Filter string

// The filters.
const (
	FilterAuto     Filter = "auto"
	FilterNFTables Filter = "nftables"
	FilterIPTables Filter = "iptables"
	FilterNone     Filter = "none"
)

// Uplink is how to find the interface that faces the other hosts.
type Uplink struct {
	Ifaces       []string // names or addresses
	IfaceRegexes []string
	CanReach     netip.Addr
	PublicIP     subnet.Pair[netip.Addr]
	FromNodeIP   bool // the interface is the one that has the Node's InternalIP
	External     bool // PublicIP is the Node's ExternalIP, if it has one
}
