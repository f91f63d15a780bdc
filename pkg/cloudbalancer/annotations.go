package cloudbalancer

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Prefix begins the annotations of Services that are about load balancers of AWS.
const Prefix = "service.beta.kubernetes.io/aws-load-balancer-"

// SourceRangesAnnotation has the ranges of clients, where spec.loadBalancerSourceRanges
// has none.
const SourceRangesAnnotation = "service.beta.kubernetes.io/load-balancer-source-ranges"

// The annotations, without Prefix.
const (
	aType           = "type"
	aInternal       = "internal"
	aScheme         = "scheme"
	aTargetType     = "nlb-target-type"
	aFamilies       = "ip-address-type"
	aSubnets        = "subnets"
	aAllocations    = "eip-allocations"
	aIPv4           = "private-ipv4-addresses"
	aIPv6           = "ipv6-addresses"
	aSecurity       = "security-groups"
	aExtra          = "extra-security-groups"
	aNodeLabels     = "target-node-labels"
	aTags           = "additional-resource-tags"
	aCertificate    = "ssl-cert"
	aTLSPorts       = "ssl-ports"
	aPolicy         = "ssl-negotiation-policy"
	aALPN           = "alpn-policy"
	aBackend        = "backend-protocol"
	aProxy          = "proxy-protocol"
	aCrossZone      = "cross-zone-load-balancing-enabled"
	aLog            = "access-log-enabled"
	aLogBucket      = "access-log-s3-bucket-name"
	aLogPrefix      = "access-log-s3-bucket-prefix"
	aDraining       = "connection-draining-enabled"
	aDrainingTime   = "connection-draining-timeout"
	aAttributes     = "attributes"
	aGroupAttrs     = "target-group-attributes"
	aCheckProtocol  = "healthcheck-protocol"
	aCheckPort      = "healthcheck-port"
	aCheckPath      = "healthcheck-path"
	aCheckCodes     = "healthcheck-success-codes"
	aCheckHealthy   = "healthcheck-healthy-threshold"
	aCheckUnhealthy = "healthcheck-unhealthy-threshold"
	aCheckTimeout   = "healthcheck-timeout"
	aCheckInterval  = "healthcheck-interval"
)

// Annotations returns the annotations that have an effect, without Prefix, in order.
func Annotations() []string {
	all := slices.Clone(served[:])
	slices.Sort(all)
	return all
}

var served = [...]string{
	aType, aInternal, aScheme, aTargetType, aFamilies, aSubnets, aAllocations, aIPv4, aIPv6, aSecurity, aExtra, aNodeLabels, aTags,
	aCertificate, aTLSPorts, aPolicy, aALPN, aBackend, aProxy, aCrossZone, aLog, aLogBucket, aLogPrefix, aDraining, aDrainingTime,
	aAttributes, aGroupAttrs, aCheckProtocol, aCheckPort, aCheckPath, aCheckCodes, aCheckHealthy, aCheckUnhealthy, aCheckTimeout, aCheckInterval,
}

// without are annotations that other controllers know, and why they have no effect here.
var without = map[string]string{
	"name":                     "the name of a balancer is made of the Service's UID; leave it out",
	"access-log-emit-interval": "a network load balancer has no such interval; leave it out",
	"connection-idle-timeout":  "it is for classic load balancers; leave it out",
	"inbound-sg-rules-on-private-link-traffic": "it is not supported; set it in the console or by the API",
	"manage-backend-security-group-rules":      "rules are always managed; leave it out",
}

// reader reads the annotations of one Service, and notes what is wrong.
type reader struct {
	of       map[string]string
	problems []Problem
}

// fatal notes a problem with an annotation whose intention is unclear.
func (r *reader) fatal(name, why, fix string) {
	r.problems = append(r.problems, Problem{true, fmt.Sprintf("annotation %s%s: %.80q %s; %s", Prefix, name, r.of[Prefix+name], why, fix)})
}

// ignored notes an annotation without effect.
func (r *reader) ignored(name, why string) {
	r.problems = append(r.problems, Problem{false, fmt.Sprintf("annotation %s%.80s has no effect: %s", Prefix, name, why)})
}

// unknown notes the annotations that have no effect.
func (r *reader) unknown() {
	for _, key := range slices.Sorted(maps.Keys(r.of)) {
		name, is := strings.CutPrefix(key, Prefix)
		if !is || slices.Contains(served[:], name) {
			continue
		}
		why, known := without[name]
		if !known {
			why = "it is not known; check its spelling"
		}
		r.ignored(name, why)
	}
}

// text returns the value of an annotation without space around it.
func (r *reader) text(name string) (value string, is bool) {
	value, is = r.of[Prefix+name]
	value = strings.TrimSpace(value)
	return value, is && value != ""
}

// choice returns the value of an annotation, if it is one of some.
func (r *reader) choice(name string, from ...string) (value string, is bool) {
	value, is = r.text(name)
	if is && !slices.Contains(from, value) {
		r.fatal(name, "is none of its values", "use "+strings.Join(from, " or "))
		return "", false
	}
	return value, is
}

// truth returns the value of an annotation that is true or false.
func (r *reader) truth(name string) (value, is bool) {
	text, is := r.text(name)
	if !is {
		return false, false
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		r.fatal(name, "is neither true nor false", "use true or false")
		return false, false
	}
	return value, true
}

// number returns the value of an annotation that is a number in a range, or def.
func (r *reader) number(name string, least, most, def int) int {
	text, is := r.text(name)
	if !is {
		return def
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		r.fatal(name, fmt.Sprintf("is not a number from %d to %d", least, most), fmt.Sprintf("use one like %d", def))
		return def
	}
	return n
}

// mostItems limits the items of an annotation. Anyone who may write a Service may write
// 256 KiB of them, and all controllers wait while they are read.
const mostItems = 100

// items returns at most mostItems texts between the commas of an annotation. More of them
// are a fatal problem.
func (r *reader) items(name string) (all []string) {
	text, _ := r.text(name)
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		if len(all) == mostItems {
			r.fatal(name, fmt.Sprintf("has more than %d items", mostItems), fmt.Sprintf("use at most %d", mostItems))
			break
		}
		all = append(all, item)
	}
	return all
}

// list returns the items of an annotation that separates them by commas.
func (r *reader) list(name string) (items []string) {
	for _, item := range r.items(name) {
		if slices.Contains(items, item) {
			r.fatal(name, fmt.Sprintf("has %.80q twice", item), "leave one out")
			continue
		}
		items = append(items, item)
	}
	return items
}

// pairs returns the items of an annotation of the form key=value,key=value.
func (r *reader) pairs(name string) map[string]string {
	if _, is := r.text(name); !is {
		return nil
	}
	all := make(map[string]string)
	for _, item := range r.items(name) {
		key, value, _ := strings.Cut(item, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if _, twice := all[key]; twice {
			r.fatal(name, fmt.Sprintf("has %.80q twice", key), "leave one out")
		}
		if key != "" {
			all[key] = value
		}
	}
	return all
}
