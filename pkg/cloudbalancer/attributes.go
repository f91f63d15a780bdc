package cloudbalancer

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// Attributes in the words of AWS.
const (
	crossZone       = "load_balancing.cross_zone.enabled"
	logs            = "access_logs.s3.enabled"
	logBucket       = "access_logs.s3.bucket"
	logPrefix       = "access_logs.s3.prefix"
	drainingSeconds = "deregistration_delay.timeout_seconds"
	proxyProtocol   = "proxy_protocol_v2.enabled"
	keepClient      = "preserve_client_ip.enabled"
	sticky          = "stickiness.enabled"
	stickyType      = "stickiness.type"
)

var (
	truthValue  = regexp.MustCompile(`^(true|false)$`)
	secondValue = regexp.MustCompile(`^[0-9]{1,6}$`)
	anyValue    = regexp.MustCompile(`^[^\s]{1,1000}$`)
	countValue  = regexp.MustCompile(`^(off|[0-9]{1,4})$`)
)

// balancerAttributes are those of a balancer, with what their values are like.
var balancerAttributes = map[string]*regexp.Regexp{
	crossZone: truthValue, logs: truthValue, logBucket: anyValue, logPrefix: anyValue,
	"deletion_protection.enabled":            truthValue,
	"zonal_shift.config.enabled":             truthValue,
	"dns_record.client_routing_policy":       regexp.MustCompile(`^(availability_zone_affinity|partial_availability_zone_affinity|any_availability_zone)$`),
	"secondary_ips.auto_assigned.per_subnet": regexp.MustCompile(`^[0-7]$`),
}

// groupAttributes are those of a target group.
var groupAttributes = map[string]*regexp.Regexp{
	drainingSeconds: secondValue, proxyProtocol: truthValue, keepClient: truthValue, sticky: truthValue,
	stickyType: regexp.MustCompile(`^source_ip$`),
	"deregistration_delay.connection_termination.enabled":                            truthValue,
	"load_balancing.cross_zone.enabled":                                              regexp.MustCompile(`^(true|false|use_load_balancer_configuration)$`),
	"target_health_state.unhealthy.connection_termination.enabled":                   truthValue,
	"target_health_state.unhealthy.draining_interval_seconds":                        secondValue,
	"target_group_health.dns_failover.minimum_healthy_targets.count":                 countValue,
	"target_group_health.dns_failover.minimum_healthy_targets.percentage":            countValue,
	"target_group_health.unhealthy_state_routing.minimum_healthy_targets.count":      countValue,
	"target_group_health.unhealthy_state_routing.minimum_healthy_targets.percentage": countValue,
}

// initial are the values of attributes that were never set.
var initial = map[string]string{
	crossZone: "false", logs: "false", logBucket: "", logPrefix: "", "deletion_protection.enabled": "false",
	drainingSeconds: "300", proxyProtocol: "false", sticky: "false", stickyType: "source_ip",
	"deregistration_delay.connection_termination.enabled": "false",
}

// valid returns the pairs of an annotation that are attributes.
func (r *reader) valid(name string, known map[string]*regexp.Regexp) map[string]string {
	all := r.pairs(name)
	for key, value := range all {
		switch pattern := known[key]; {
		case pattern == nil:
			r.ignored(name, fmt.Sprintf("%.80q is no attribute that a network load balancer has with instances as targets; leave it out", key))
			delete(all, key)
		case !pattern.MatchString(value):
			r.fatal(name, fmt.Sprintf("gives %s the value %.80q", key, value), "use one that matches "+pattern.String())
		}
	}
	if all == nil {
		all = make(map[string]string)
	}
	return all
}

// attributes reads the attributes of the balancer.
func (r *reader) attributes() map[string]string {
	all := r.valid(aAttributes, balancerAttributes)
	set := func(key, value string, is bool) {
		if is {
			all[key] = value
		}
	}
	on, is := r.truth(aCrossZone)
	set(crossZone, strconv.FormatBool(on), is)
	on, is = r.truth(aLog)
	set(logs, strconv.FormatBool(on), is)
	bucket, is := r.text(aLogBucket)
	set(logBucket, bucket, is)
	prefix, is := r.text(aLogPrefix)
	set(logPrefix, prefix, is)
	// What an annotation switched on, its absence switches off.
	for _, key := range []string{crossZone, logs} {
		if _, is := all[key]; !is {
			all[key] = initial[key]
		}
	}
	switch {
	case all[logs] != "true": // AWS takes no empty bucket
		delete(all, logBucket)
		delete(all, logPrefix)
	case all[logBucket] == "":
		r.fatal(aLog, "needs a bucket", "name it in "+Prefix+aLogBucket)
	}
	return all
}

// groupAttributes reads the attributes of target groups.
func (r *reader) groupAttributes(s Service) map[string]string {
	all := r.valid(aGroupAttrs, groupAttributes)
	if text, is := r.text(aProxy); is {
		if text == "*" {
			all[proxyProtocol] = "true"
		} else {
			r.fatal(aProxy, "is not *", "use * for all ports, or leave it out")
		}
	}
	if on, is := r.truth(aDraining); is && !on {
		all[drainingSeconds] = "0"
	} else if _, is := r.text(aDrainingTime); is {
		all[drainingSeconds] = strconv.Itoa(r.number(aDrainingTime, 0, 3600, 300))
	}
	if s.Sticky {
		all[sticky], all[stickyType] = "true", "source_ip"
	}
	for _, key := range []string{proxyProtocol, sticky} {
		if _, is := all[key]; !is {
			all[key] = initial[key]
		}
	}
	if n, err := strconv.Atoi(all[drainingSeconds]); err == nil && n > 3600 {
		r.fatal(aGroupAttrs, fmt.Sprintf("lets targets drain for %d s", n), "use at most 3600")
	}
	return all
}

// differing returns those attributes that an object does not have yet.
func differing(has, want map[string]string) map[string]string {
	known := func(key string) map[string]string {
		if value, is := has[key]; is {
			return map[string]string{key: value}
		}
		if value, is := initial[key]; is {
			return map[string]string{key: value}
		}
		return nil
	}
	var all map[string]string
	for key, value := range want {
		if len(lacking(known(key), map[string]string{key: value})) == 0 {
			continue
		}
		if all == nil {
			all = make(map[string]string)
		}
		all[key] = value
	}
	return all
}

// attributesOf returns the attributes that a target group of a protocol can have.
func (w Want) attributesOf(p cloud.Protocol) map[string]string {
	all := make(map[string]string, len(w.GroupAttributes))
	for key, value := range w.GroupAttributes {
		udp := p == cloud.UDP || p == cloud.TCPUDP
		switch {
		case p == cloud.TLS && strings.HasPrefix(key, "stickiness."):
		case udp && key == keepClient && value == "false":

		default:
			all[key] = value
		}
	}
	return all
}
