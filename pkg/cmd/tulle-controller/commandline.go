package main

import (
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/cloud/gce"
	"github.com/tulle-net/tulle/pkg/flags"
)

// command is what tulle-controller does.
type command int

const (
	runIt command = iota
	showPlan
	showIPAM
	showRoutes
	showNode
	doNetwork
	showHelp
	showVersion
	showManPage
	showCompletion
)

// needsCluster reports whether a command reads the cluster.
func (c command) needsCluster() bool { return c < doNetwork }

// The help's headings.
const (
	controllers  = "Controllers"
	kubernetes   = "Kubernetes"
	nodeIPAM     = "Node IPAM"
	ofGoogle     = "Google"
	ofCloud      = "Cloud"
	ofClusterAPI = "Cluster API"
	ofNetwork    = "Network on AWS"
	ofEtcd       = "etcd"
	electing     = "Leader election"
	health       = "Health"
	logging      = "Logging"
	ofCommands   = "Commands"
	other        = "Other"
)

// prefix begins the flags' variables.
const prefix = "TULLE_CONTROLLER_"

// program returns tulle-controller's command line, which sets s.
func (s *settings) program() flags.Program {
	return flags.Program{
		Name:     "tulle-controller",
		About:    "tulle-controller gives the Nodes of a Kubernetes cluster their podCIDRs, and manages their instances, routes and load balancers in a cloud.",
		Prefixes: []string{prefix},
		Example:  "cluster-cidr",
		Commands: s.commands(),
		Flags:    s.table(),
		Examples: []string{
			"tulle-controller --allocate-node-cidrs --cluster-cidr=10.244.0.0/16,fd00:10:244::/56 --service-cluster-ip-range=10.96.0.0/12",
			"tulle-controller plan --kubeconfig=admin.conf --allocate-node-cidrs --cluster-cidr=10.244.0.0/16",
			"tulle-controller aws plan -f network.yaml",
		},
		Manual: manual,
	}
}

func (s *settings) commands() []flags.Command {
	to := func(c command) func(string) error {
		return func(string) error { s.command = c; return nil }
	}
	uses := []string{controllers, kubernetes, nodeIPAM, ofGoogle, ofCloud, ofClusterAPI, ofEtcd, logging}
	all := []flags.Command{
		{Value: "[flags]", About: "run the controllers"},
		{Name: "plan", About: "print every write without making it; exit with 2 if there is any, with 1 on failure", Uses: uses, Set: to(showPlan)},
		{Name: "ipam", About: "show how full the pools of podCIDRs are, and what is wrong with Nodes", Uses: uses, Set: to(showIPAM)},
		{Name: "routes", About: "compare the cloud's route tables with what the cluster needs", Uses: uses, Set: to(showRoutes)},
		{Name: "explain", Value: "NODE", About: "show what the controllers do for a Node or a Service, NAMESPACE/NAME, and what is missing", Uses: uses, Set: s.explainNode},
		{Name: "aws", Value: strings.Join(networkVerbs, "|"), About: "plan, build or delete a cluster's network on AWS, without Kubernetes", Choices: networkVerbs, Uses: networkUses, Set: s.setNetwork},
		{Name: "version", About: "print the version", Set: to(showVersion)},
		{Name: "man", About: "print the manual page", Set: to(showManPage)},
		{Name: "completion", Value: "SHELL", About: "print completions for bash, zsh or fish", Choices: flags.Shells(), Set: s.completion},
	}
	help := flags.Command{Name: "help", Value: "[COMMAND]", About: "explain a command and its flags", Set: func(topic string) error {
		s.command, s.topic = showHelp, topic
		return nil
	}}
	for _, c := range all[1:] {
		help.Choices = append(help.Choices, c.Name)
	}
	return append(all, help)
}

func (s *settings) completion(shell string) error {
	if !slices.Contains(flags.Shells(), shell) {
		return &flags.Error{Why: "completion needs a shell", Fix: "use one of " + strings.Join(flags.Shells(), ", ")}
	}
	s.command, s.shell = showCompletion, shell
	return nil
}

// table returns every flag, in the order of the help.
func (s *settings) table() []flags.Flag {
	return slices.Concat(s.ipamFlags(), s.cloudFlags(), s.routeFlags(), s.nodeFlags(), s.balancerFlags(), s.networkFlags(), s.clusterFlags(), s.etcdFlags(), s.processFlags())
}

// ipamFlags are those of all controllers, and of node IPAM.
func (s *settings) ipamFlags() []flags.Flag {
	return []flags.Flag{
		{Name: "controllers", Group: controllers, Value: "LIST", Default: "*",
			About: "controllers to run; * is all but those to name; -NAME turns one off",
			Set:   flags.To(&s.controllers, readControllers)},
		{Name: "mode", Group: controllers, Value: "MODE", Default: "write",
			About:   "write, or observe: count and show writes only",
			Choices: modes(),
			Set:     flags.To(&s.mode, readMode)},

		{Name: "kubeconfig", Group: kubernetes, Value: "FILE",
			About: "kubeconfig (default the pod's service account)",
			Set:   flags.To(&s.kubeconfig, flags.File)},
		{Name: "master", Group: kubernetes, Value: "URL",
			About: "API server; overrides the kubeconfig's",
			Set:   flags.To(&s.master, readURL)},

		{Name: "allocate-node-cidrs", Group: nodeIPAM, Default: "false",
			About: "give Nodes podCIDRs; needs --cluster-cidr or --node-pools",
			Set:   flags.To(&s.allocate, flags.Bool)},
		{Name: "cluster-cidr", Group: nodeIPAM, Value: "CIDRS",
			About: "range of podCIDRs, or one per family",
			Set:   flags.To(&s.cluster, readRanges("10.244.0.0/16,fd00:10:244::/56"))},
		{Name: "node-pools", Group: nodeIPAM, Value: "FILE",
			About: "pools of podCIDRs, beside --cluster-cidr; read again on changes",
			Set:   flags.To(&s.poolFile, flags.File)},
		{Name: "service-cluster-ip-range", Group: nodeIPAM, Value: "CIDRS",
			About: "range of Services that no podCIDR overlaps; or one per family",
			Set:   flags.To(&s.services, readRanges("10.96.0.0/12,fd00:10:96::/112"))},
		{Name: "secondary-service-cluster-ip-range", Group: nodeIPAM, Value: "CIDR",
			About: "range of Services of the other family",
			Set:   flags.To(&s.secondServices, readRanges("fd00:10:96::/112"))},
		{Name: "node-cidr-mask-size", Group: nodeIPAM, Value: "BITS",
			About: "prefix length of podCIDRs, with one family (default 24 or 64)",
			Set:   flags.To(&s.maskSize, flags.Whole(0, 128))},
		{Name: "node-cidr-mask-size-ipv4", Group: nodeIPAM, Value: "BITS",
			About: "prefix length of IPv4 podCIDRs (default 24)",
			Set:   flags.To(&s.maskSizes[0], flags.Whole(0, 32))},
		{Name: "node-cidr-mask-size-ipv6", Group: nodeIPAM, Value: "BITS",
			About: "prefix length of IPv6 podCIDRs (default 64)",
			Set:   flags.To(&s.maskSizes[1], flags.Whole(0, 128))},
		{Name: "cidr-allocator-type", Group: nodeIPAM, Value: "TYPE", Default: rangeAllocator,
			About:   "where podCIDRs come from",
			Choices: allocators(),
			Set:     flags.To(&s.allocator, readAllocator)},
		{Name: "node-cidr-rest", Group: nodeIPAM, Value: "DURATION", Default: "1m",
			About: "how long podCIDRs of a deleted Node stay reserved; 0 disables it",
			Set:   flags.To(&s.rest, readRest)},

		{Name: "gce-project", Group: ofGoogle, Value: "PROJECT",
			About: "project of the Nodes' instances (default the credentials')",
			Set:   flags.To(&s.google.project, readProject)},
		{Name: "gce-secondary-range", Group: ofGoogle, Value: "NAME",
			About: "secondary range of the subnetwork for podCIDRs",
			Set:   flags.To(&s.google.secondary, readSecondary)},
		{Name: "gce-api-endpoint", Group: ofGoogle, Value: "URL", Default: gce.Endpoint,
			About: "the Compute Engine API",
			Set:   flags.To(&s.google.endpoint, readURL)},
		shareFlag("gce-api-share", ofGoogle, "percent of 1,200 requests a minute of each kind to use", &s.google.share),
		{Name: "gce-route-limit", Group: ofGoogle, Value: "NUMBER", Default: "0",
			About: "static routes that the network may have; 0 is unknown",
			Set:   flags.To(&s.google.routes, flags.Whole(0, 1_000_000))},
	}
}

// processFlags are about the process.
func (s *settings) processFlags() []flags.Flag {
	return []flags.Flag{
		{Name: "leader-elect", Group: electing, Default: "true",
			About: "write only as the leader of all replicas",
			Set:   flags.To(&s.elect.On, flags.Bool)},
		{Name: "leader-elect-lease-duration", Group: electing, Value: "DURATION", Default: "15s",
			About: "how long a leader that does not renew keeps others out",
			Set:   flags.To(&s.elect.LeaseDuration, readDuration)},
		{Name: "leader-elect-renew-deadline", Group: electing, Value: "DURATION", Default: "10s",
			About: "how long a leader that cannot renew keeps writing",
			Set:   flags.To(&s.elect.RenewDeadline, readDuration)},
		{Name: "leader-elect-retry-period", Group: electing, Value: "DURATION", Default: "2s",
			About: "interval of renewals and of attempts to lead",
			Set:   flags.To(&s.elect.RetryPeriod, readDuration)},
		{Name: "leader-elect-resource-lock", Group: electing, Value: "KIND", Default: "leases",
			About:   "kind of lock",
			Choices: []string{"leases"},
			Set:     readLock},
		{Name: "leader-elect-resource-name", Group: electing, Value: "NAME", Default: "tulle-controller",
			About: "name of the Lease",
			Set:   flags.To(&s.elect.Name, readName)},
		{Name: "leader-elect-resource-namespace", Group: electing, Value: "NAME", Default: "kube-system",
			About: "namespace of the Lease",
			Set:   flags.To(&s.elect.Namespace, readName)},

		flags.HTTPAddress(&s.health.Address).In(health),
		flags.HTTPPort(&s.health.Port, "10264").In(health),
		flags.Pprof(&s.health.Pprof).In(health),

		flags.LogLevel(&s.verbosity, "log level; 1 logs each write").In(logging),

		{Name: "output", Group: ofCommands, Value: "FORMAT", Default: "text",
			About:   "output format: text, json or yaml",
			Choices: answer.Formats(),
			Only:    []string{"plan", "ipam", "routes", "explain", "aws", "version"},
			Set:     flags.To(&s.output, answer.ReadFormat)},

		flags.Help.In(other),
		flags.Version.In(other),
	}
}

var manual = flags.Manual{
	Summary: "podCIDRs, cloud Nodes, routes and load balancers of a cluster",
	Description: `.B tulle\-controller
runs the cluster\-wide controllers of a Kubernetes cluster.
It gives every Node its podCIDRs, in place of the node\-ipam\-controller of kube\-controller\-manager, and takes the flags of that.
With
.B \-\-cloud\-provider
it also replaces a cloud controller manager, on AWS, Azure or Google Cloud.
It initialises Nodes, deletes those whose instances are gone, and routes podCIDRs in the cloud's tables.
On AWS it also gives Services load balancers.
With
.B \-\-etcd\-endpoints
it routes the subnets of hosts that have only etcd.
It runs as a Deployment or as a service on hosts.
Several replicas elect a leader by a Lease. Only the leader writes; the others stand by.
.PP
Nodes keep the podCIDRs that they have.
.B tulle\-controller plan
prints every write without making it, and
.B \-\-mode=observe
only counts and shows writes.
.PP
SIGTERM and SIGINT stop it: writes in flight end, and the Lease is released.
`,
	Exit: `.TP
.B 0
Success; the program stopped on a signal. Of
.BR "tulle\-controller plan" " and " "aws plan" :
there is nothing to write.
.TP
.B 1
Failure. Standard error gives the reason, and the fix. Of
.BR "tulle\-controller plan" " and " "aws plan" :
also a wrong flag, variable or argument.
.TP
.B 2
A flag, a variable or an argument is wrong; nothing was done. Of
.BR "tulle\-controller plan" " and " "aws plan" :
there is something to write.
`,
	Also: []string{"tulled(8)", "kube-controller-manager(1)", "systemd.service(5)"},
}
