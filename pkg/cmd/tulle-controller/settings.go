package main

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/etcdflags"
	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/pkg/httpd"
	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/subnet"
)

// settings are the values of the command line and the environment.
type settings struct {
	command command
	shell   string // of showCompletion
	topic   string // of showHelp
	node    string // of showNode
	output  answer.Format

	controllers selection
	mode        controller.Mode

	kubeconfig, master string

	allocate                          bool
	cluster, services, secondServices []netip.Prefix
	maskSize                          int              // 0 is the default
	maskSizes                         subnet.Pair[int] // 0 is the default
	pools                             []ipam.Pool      // of --cluster-cidr; set by check
	poolFile                          string           // of --node-pools
	filePools                         []ipam.Pool      // in it; set by check
	allocator                         string
	rest                              time.Duration
	google                            googleSettings
	cloud                             cloudSettings
	aws                               awsSettings
	azure                             azureSettings
	balancers                         balancerSettings
	network                           networkSettings
	route                             routeSettings
	clusters                          clusterSettings
	etcd                              etcdflags.Etcd // the network, without Kubernetes
	nodes                             nodeSettings

	elect     elect
	health    httpd.Options
	verbosity int
	given     []string          // flags and variables as one would write them
	values    map[string]string // of every flag
}

// elect is how the leader is elected.
type elect struct {
	On                                        bool
	Namespace, Name                           string
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// The allocators, as in kube-controller-manager.
const (
	// rangeAllocator gives podCIDRs from --cluster-cidr.
	rangeAllocator = "RangeAllocator"
	// multiAllocator gives podCIDRs from ClusterCIDRs, and from --cluster-cidr if that
	// is set.
	multiAllocator = "MultiCIDRRangeAllocator"
	// The following three take podCIDRs from Google's alias ranges.
	cloudAllocator       = "CloudAllocator"
	fromCloudAllocator   = "IPAMFromCloud"
	fromClusterAllocator = "IPAMFromCluster"
)

func allocators() []string {
	return []string{rangeAllocator, multiAllocator, cloudAllocator, fromCloudAllocator, fromClusterAllocator}
}

// The default lengths of podCIDRs, as in kube-controller-manager.
var defaultMasks = subnet.Pair[int]{subnet.IPv4: 24, subnet.IPv6: 64}

// poolName is what --cluster-cidr is called where several pools may exist.
const poolName = "cluster-cidr"

// check rejects flags that conflict, and sets what follows from several flags.
func (s *settings) check(g *flags.Given) error {
	for _, check := range []func(*flags.Given) error{s.checkEtcd, s.checkCloud, s.checkIPAM, s.checkControllers, s.checkServices, s.checkMasks, s.checkPoolFile, s.checkGoogle, s.checkRoutes, s.checkBalancers, s.checkClusters, s.checkElection} {
		if err := check(g); err != nil {
			return err
		}
	}
	s.values = make(map[string]string)
	for _, f := range s.table() {
		if s.values[f.Name] = f.Default; g.Has(f.Name) {
			s.values[f.Name] = g.Last(f.Name)
		}
	}
	return nil
}

func (s *settings) checkServices(g *flags.Given) error {
	const second = "secondary-service-cluster-ip-range"
	switch {
	case len(s.secondServices) == 0:
	case len(s.services) != 1 || len(s.secondServices) != 1:
		return &flags.Error{Flag: g.From(second), Value: g.Last(second), Why: "needs one range in --service-cluster-ip-range, and has one of the other family", Fix: "write both in --service-cluster-ip-range, joined by a comma"}
	case subnet.FamilyOf(s.services[0].Addr()) == subnet.FamilyOf(s.secondServices[0].Addr()):
		return &flags.Error{Flag: g.From(second), Value: g.Last(second), Why: "of the same family as --service-cluster-ip-range", Fix: "use one of the other family"}
	}
	return nil
}

// checkMasks sets the pools.
func (s *settings) checkMasks(g *flags.Given) error {
	const either, v4, v6 = "node-cidr-mask-size", "node-cidr-mask-size-ipv4", "node-cidr-mask-size-ipv6"
	names := subnet.Pair[string]{subnet.IPv4: v4, subnet.IPv6: v6}
	pool := ipam.Pool{Name: poolName, Grow: "use a larger " + g.From("cluster-cidr")}
	if s.maskSize != 0 {
		switch {
		case len(s.cluster) == 0:
			return &flags.Error{Flag: g.From(either), Why: "has no effect without --cluster-cidr", Fix: "leave it out"}
		case len(s.cluster) > 1:
			return &flags.Error{Flag: g.From(either), Why: "ambiguous with two families", Fix: "use --" + v4 + " and --" + v6}
		case s.maskSizes != subnet.Pair[int]{}:
			return &flags.Error{Flag: g.From(either), Why: "conflicts with the length of a family", Fix: "leave it out"}
		}
	}
	for i, r := range s.cluster {
		f := subnet.FamilyOf(r.Addr())
		if i == 0 {
			pool.First = f
		}
		pool.Ranges[f] = []netip.Prefix{r}
		from := names[f]
		if pool.Bits[f] = s.maskSizes[f]; s.maskSize != 0 {
			pool.Bits[f], from = s.maskSize, either
		}
		if pool.Bits[f] == 0 {
			pool.Bits[f] = defaultMasks[f]
		}
		if err := pool.Check(); err != nil {
			return &flags.Error{Flag: g.From(from), Why: fmt.Sprintf("no podCIDRs of /%d in %s", pool.Bits[f], r), Fix: unpooled(err)}
		}
	}
	for f, bits := range s.maskSizes {
		if bits != 0 && len(pool.Ranges[f]) == 0 {
			return &flags.Error{Flag: g.From(names[f]), Why: fmt.Sprintf("%s has no %s range", g.From("cluster-cidr"), subnet.Family(f)), Fix: "leave it out, or add a range"}
		}
	}
	if len(s.cluster) > 0 && s.runs(nodeIPAMPart) {
		s.pools = []ipam.Pool{pool}
	}
	return nil
}

// unpooled returns an error of a pool without the pool's name.
func unpooled(err error) string {
	_, text, _ := strings.Cut(err.Error(), ": ")
	return text
}

func (s *settings) checkElection(g *flags.Given) error {
	e := s.elect
	const lease, renew, retry = "leader-elect-lease-duration", "leader-elect-renew-deadline", "leader-elect-retry-period"
	switch {
	case !e.On:
	case e.RenewDeadline >= e.LeaseDuration:
		return &flags.Error{Flag: g.From(renew), Value: e.RenewDeadline.String(), Why: "not shorter than the lease duration " + e.LeaseDuration.String(), Fix: "lower it, or raise --" + lease}
	case e.RetryPeriod*12/10 >= e.RenewDeadline:
		return &flags.Error{Flag: g.From(retry), Value: e.RetryPeriod.String(), Why: "not shorter than the renew deadline " + e.RenewDeadline.String() + " with its jitter", Fix: "lower it, or raise --" + renew}
	case e.LeaseDuration%time.Second != 0:
		return &flags.Error{Flag: g.From(lease), Value: e.LeaseDuration.String(), Why: "not whole seconds", Fix: "use one like 15s"}
	}
	return nil
}

// These functions read the values of flags. No value is empty.

func modes() []string {
	return []string{string(controller.WriteMode), string(controller.ObserveMode)}
}

func readMode(value string) (controller.Mode, error) {
	if !slices.Contains(modes(), value) {
		return "", flags.Refuse(value, "unknown mode", "use "+strings.Join(modes(), " or "))
	}
	return controller.Mode(value), nil
}

func readURL(value string) (string, error) {
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", flags.Refuse(value, "not a URL of an API server", "use one like https://192.0.2.7:6443")
	}
	return value, nil
}

// readRanges takes a range, or one of each family joined by a comma.
func readRanges(example string) func(string) ([]netip.Prefix, error) {
	return func(value string) (all []netip.Prefix, err error) {
		for text := range strings.SplitSeq(value, ",") {
			p, err := netip.ParsePrefix(strings.TrimSpace(text))
			switch {
			case err != nil || p.Addr().Is4In6():
				return nil, flags.Refuse(text, "not a range in CIDR notation", "use one like "+example)
			case len(all) == 2:
				return nil, flags.Refuse(value, "more than two ranges", "use one, or one of each family, like "+example)
			case len(all) == 1 && subnet.FamilyOf(all[0].Addr()) == subnet.FamilyOf(p.Addr()):
				return nil, flags.Refuse(value, "two ranges of one family", "use one, or one of each family, like "+example)
			}
			all = append(all, p.Masked())
		}
		return all, nil
	}
}

func readAllocator(value string) (string, error) {
	if !slices.Contains(allocators(), value) {
		return "", flags.Refuse(value, "unknown allocator", flags.DidYouMean(flags.Nearest(value, allocators()), "use "+strings.Join(allocators(), " or ")))
	}
	return value, nil
}

func readLock(value string) error {
	if value != "leases" {
		return flags.Refuse(value, "unknown kind of lock", "use leases")
	}
	return nil
}

func readDuration(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < time.Second || d > time.Hour {
		return 0, flags.Refuse(value, "not a duration from 1s to 1h", "use one like 15s")
	}
	return d, nil
}

func readRest(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 || d > time.Hour {
		return 0, flags.Refuse(value, "not a duration from 0 to 1h", "use one like 1m")
	}
	return d, nil
}

// readName reads the name of an object, or of a namespace.
func readName(value string) (string, error) {
	alone := func(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }
	ok := len(value) <= 253
	for i := range len(value) {
		ok = ok && (alone(value[i]) || 0 < i && i < len(value)-1 && (value[i] == '.' || value[i] == '-'))
	}
	if !ok {
		return "", flags.Refuse(value, "not a valid name of a Kubernetes object", "use lower case letters, digits, dashes and dots")
	}
	return value, nil
}
