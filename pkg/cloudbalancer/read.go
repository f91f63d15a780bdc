package cloudbalancer

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// The limits of AWS.
const (
	mostTags    = 45 // of an object, without ours
	mostTagKey  = 128
	mostTagText = 256
	mostPorts   = 200  // of a Service; AWS allows 50 listeners, without a higher quota
	mostRules   = 1000 // of all security groups of an interface
)

// mostProblems limits what is reported for one Service.
const mostProblems = 10

var (
	securityID   = regexp.MustCompile(`^sg-[0-9a-zA-Z]{1,40}$`)
	allocationID = regexp.MustCompile(`^eipalloc-[0-9a-zA-Z]{1,40}$`)
	certificate  = regexp.MustCompile(`^arn:[a-z-]+:(acm|iam):[a-z0-9-]*:[0-9]{0,12}:[^\s]{1,512}$`)
	policyName   = regexp.MustCompile(`^[A-Za-z0-9-]{1,128}$`)
	labelKey     = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,315}[A-Za-z0-9])?$`)
)

// reservedTags begin the keys, in lower case, by which AWS and controllers tell what is
// theirs.
var reservedTags = []string{"aws:", "kubernetes.io/", "tulle.net/", "elbv2.k8s.aws/", "service.k8s.aws/", "ingress.k8s.aws/"}

// noALPN is the policy without ALPN.
const noALPN = "None"

// alpnPolicies are the policies of the protocols inside of TLS.
var alpnPolicies = []string{"HTTP1Only", "HTTP2Only", "HTTP2Optional", "HTTP2Preferred", noALPN}

// Read returns what a Service wants, and what is wrong with it. The Service must be ours.
func (o Options) Read(s Service) (Want, []Problem) {
	r := &reader{of: s.Annotations}
	w := Want{Ref: s.Ref, cluster: o.Cluster, Balancer: BalancerName(s.UID), Scheme: r.scheme(), GroupFamily: string(cloud.IPv4Only)}
	w.readFamilies(r, s)
	if kind, is := r.text(aTargetType); is && kind != "instance" {
		r.fatal(aTargetType, "is not served here", "use instance, or leave it out")
	}
	w.Subnets = r.list(aSubnets)
	w.Allocations, w.IPv4, w.IPv6 = r.list(aAllocations), r.addresses(aIPv4, netip.Addr.Is4), r.addresses(aIPv6, netip.Addr.Is6)
	r.check(aAllocations, w.Allocations, allocationID, "name elastic addresses like eipalloc-0123456789abcdef0")
	switch {
	case len(w.Allocations) > 0 && w.Scheme == cloud.Internal:
		r.fatal(aAllocations, "gives an internal balancer public addresses", "leave it out")
	case len(w.IPv4) > 0 && w.Scheme != cloud.Internal:
		r.fatal(aIPv4, "is for internal balancers", "leave it out, or set "+Prefix+aScheme+": internal")
	case len(w.IPv6) > 0 && w.Families != cloud.DualStack:
		r.fatal(aIPv6, "is for balancers with IPv6", "leave it out, or set "+Prefix+aFamilies+": dualstack")
	}
	w.Security, w.Extra = r.list(aSecurity), r.list(aExtra)
	const fix = "name security groups by their IDs, like sg-0123456789abcdef0"
	r.check(aSecurity, w.Security, securityID, fix)
	r.check(aExtra, w.Extra, securityID, fix)
	if w.asks = len(w.Security)+len(w.Extra) > 0; len(w.Security) == 0 && o.Security != "" {
		w.Security = []string{o.Security}
	}
	before := len(r.problems)
	w.NodeLabels = r.pairs(aNodeLabels)
	for key, value := range w.NodeLabels {
		if !labelKey.MatchString(key) || len(value) > 63 {
			r.fatal(aNodeLabels, fmt.Sprintf("has %.80q, which is no label", key+"="+value), "use labels like key=value,key=value")
		}
	}
	w.NodesUnclear = len(r.problems) > before
	w.readTags(r)
	w.Sources = r.sources(s, w)
	w.Attributes, w.GroupAttributes = r.attributes(), r.groupAttributes(s)
	w.readFronts(r, s)
	if s.Address != "" {
		r.problems = append(r.problems, Problem{true, fmt.Sprintf("spec.loadBalancerIP %.80q: AWS gives balancers no address by it; leave it out, and use %s%s", s.Address, Prefix, aAllocations)})
	}
	r.unknown()
	return w, few(r.problems)
}

// scheme returns who can reach the balancer.
func (r *reader) scheme() cloud.Scheme {
	scheme, has := r.choice(aScheme, string(cloud.Internal), string(cloud.InternetFacing))
	text, is := r.text(aInternal)
	internal := is && text != "false"
	switch {
	case has && is && internal != (scheme == string(cloud.Internal)):
		r.fatal(aScheme, fmt.Sprintf("contradicts %s%s: %.80q", Prefix, aInternal, text), "leave out one of the two")
	case has:
		return cloud.Scheme(scheme)
	}
	if internal {
		return cloud.Internal
	}
	return cloud.InternetFacing
}

// readFamilies reads which families of addresses the balancer and the targets have.
func (w *Want) readFamilies(r *reader, s Service) {
	families, is := r.choice(aFamilies, string(cloud.IPv4Only), string(cloud.DualStack))
	if w.Families = cloud.IPv4Only; is {
		w.Families = cloud.AddressFamilies(families)
	}
	switch only6 := slices.Equal(s.Families, []string{"IPv6"}); {
	case only6 && is && w.Families == cloud.IPv4Only:
		r.fatal(aFamilies, "is without IPv6, the only family of the Service", "use dualstack")
	case only6:
		w.Families, w.GroupFamily = cloud.DualStack, "ipv6"
	}
}

// check refuses items that are no IDs.
func (r *reader) check(name string, items []string, pattern *regexp.Regexp, fix string) {
	for _, item := range items {
		if !pattern.MatchString(item) {
			r.fatal(name, fmt.Sprintf("has %.80q, which is no ID", item), fix)
		}
	}
}

// addresses returns a list of addresses of one family.
func (r *reader) addresses(name string, fits func(netip.Addr) bool) []string {
	all := r.list(name)
	for _, text := range all {
		if a, err := netip.ParseAddr(text); err != nil || !fits(a) || a.Zone() != "" {
			r.fatal(name, fmt.Sprintf("has %.80q, which is no such address", text), "use one for each subnet")
		}
	}
	return all
}

// readTags reads the tags for everything that is made.
func (w *Want) readTags(r *reader) {
	w.Tags = r.pairs(aTags)
	for key, value := range w.Tags {
		switch lower := strings.ToLower(key); {
		case len(key) > mostTagKey || len(value) > mostTagText:
			r.fatal(aTags, fmt.Sprintf("has the tag %.40q, which is too long", key), fmt.Sprintf("use at most %d characters for a key and %d for a value", mostTagKey, mostTagText))
		case lower == "kubernetescluster", slices.ContainsFunc(reservedTags, func(start string) bool { return strings.HasPrefix(lower, start) }):
			r.fatal(aTags, fmt.Sprintf("has the tag %.80q, which marks what belongs to whom", key), "leave it out")
		}
	}
	if len(w.Tags) > mostTags {
		r.fatal(aTags, fmt.Sprintf("has %d tags", len(w.Tags)), fmt.Sprintf("use at most %d", mostTags))
	}
}

// sources returns who may connect.
func (r *reader) sources(s Service, w Want) (all []netip.Prefix) {
	texts, where := s.SourceRanges, "spec.loadBalancerSourceRanges"
	if text := strings.TrimSpace(s.Annotations[SourceRangesAnnotation]); len(texts) == 0 && text != "" {
		texts, where = strings.Split(text, ","), "annotation "+SourceRangesAnnotation
	}
	if len(texts) > mostRules {
		r.problems = append(r.problems, Problem{true, fmt.Sprintf("%s: there are %d ranges of addresses; use at most %d", where, len(texts), mostRules)})
		texts = texts[:mostRules]
	}
	for _, text := range texts {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			r.problems = append(r.problems, Problem{true, fmt.Sprintf("%s: %.80q is no range of addresses; use one like 192.0.2.0/24", where, text)})
			continue
		}
		all = append(all, p.Masked())
	}
	if len(texts) == 0 {
		all = append(all, netip.MustParsePrefix("0.0.0.0/0"))
		if w.Families == cloud.DualStack {
			all = append(all, netip.MustParsePrefix("::/0"))
		}
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return slices.Compact(all)
}
