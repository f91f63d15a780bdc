package awstest

import (
	"maps"
	"slices"
	"strconv"
)

// attributeRule says what values an attribute may have: one of these, a number in a
// range, or without both any text.
type attributeRule struct {
	values      []string
	least, most int
}

var boolean = attributeRule{values: []string{"true", "false"}}

func (a attributeRule) allows(v string) bool {
	switch n, err := strconv.Atoi(v); {
	case slices.Contains(a.values, v):
		return true
	case a.most > 0:
		return err == nil && n >= a.least && n <= a.most
	default:
		return a.values == nil
	}
}

var balancerAttributes = map[string]attributeRule{
	"access_logs.s3.enabled":                 boolean,
	"access_logs.s3.bucket":                  {},
	"access_logs.s3.prefix":                  {},
	"deletion_protection.enabled":            boolean,
	"dns_record.client_routing_policy":       {values: []string{"any_availability_zone", "availability_zone_affinity", "partial_availability_zone_affinity"}},
	"ipv6.deny_all_igw_traffic":              boolean,
	"load_balancing.cross_zone.enabled":      boolean,
	"secondary_ips.auto_assigned.per_subnet": {least: 0, most: 7},
	"zonal_shift.config.enabled":             boolean,
}

var balancerDefaults = map[string]string{
	"access_logs.s3.enabled": "false", "access_logs.s3.bucket": "", "access_logs.s3.prefix": "",
	"deletion_protection.enabled": "false", "dns_record.client_routing_policy": "any_availability_zone",
	"ipv6.deny_all_igw_traffic": "false", "load_balancing.cross_zone.enabled": "false",
	"secondary_ips.auto_assigned.per_subnet": "0", "zonal_shift.config.enabled": "false",
}

// offOr is a number, or the word off.
func offOr(most int) attributeRule {
	return attributeRule{values: []string{"off"}, least: 1, most: most}
}

var targetGroupAttributes = map[string]attributeRule{
	"deregistration_delay.connection_termination.enabled":                            boolean,
	"deregistration_delay.timeout_seconds":                                           {least: 0, most: 3600},
	"load_balancing.cross_zone.enabled":                                              {values: []string{"true", "false", "use_load_balancer_configuration"}},
	"preserve_client_ip.enabled":                                                     boolean,
	"proxy_protocol_v2.enabled":                                                      boolean,
	"stickiness.enabled":                                                             boolean,
	"stickiness.type":                                                                {values: []string{"source_ip"}},
	"target_group_health.dns_failover.minimum_healthy_targets.count":                 offOr(1000),
	"target_group_health.dns_failover.minimum_healthy_targets.percentage":            offOr(100),
	"target_group_health.unhealthy_state_routing.minimum_healthy_targets.count":      offOr(1000),
	"target_group_health.unhealthy_state_routing.minimum_healthy_targets.percentage": offOr(100),
	"target_health_state.unhealthy.connection_termination.enabled":                   boolean,
	"target_health_state.unhealthy.draining_interval_seconds":                        {least: 0, most: 360000},
}

var targetGroupDefaults = map[string]string{
	"deregistration_delay.connection_termination.enabled": "false", "deregistration_delay.timeout_seconds": "300",
	"load_balancing.cross_zone.enabled": "use_load_balancer_configuration", "preserve_client_ip.enabled": "true", "proxy_protocol_v2.enabled": "false",
	"stickiness.enabled": "false", "stickiness.type": "source_ip",
	"target_group_health.dns_failover.minimum_healthy_targets.count": "1", "target_group_health.dns_failover.minimum_healthy_targets.percentage": "off",
	"target_group_health.unhealthy_state_routing.minimum_healthy_targets.count": "1", "target_group_health.unhealthy_state_routing.minimum_healthy_targets.percentage": "off",
	"target_health_state.unhealthy.connection_termination.enabled": "true", "target_health_state.unhealthy.draining_interval_seconds": "0",
}

var listenerAttributes = map[string]attributeRule{"tcp.idle_timeout.seconds": {least: 60, most: 6000}}

// changeAttributes returns attributes with the changes of a request.
func (r *request) changeAttributes(what string, now map[string]string, known map[string]attributeRule) (map[string]string, error) {
	then := maps.Clone(now)
	changes := listed(r.form, "Attributes")
	if len(changes) == 0 {
		return nil, invalid("1 validation error detected: Value null at 'attributes' failed to satisfy constraint: Member must not be null")
	}
	seen := make(map[string]bool)
	for _, f := range changes {
		key, v := f.text("Key"), f.text("Value")
		rule, ok := known[key]
		switch {
		case !ok:
			return nil, invalid("%s attribute key '%s' is not recognized", what, key)
		case seen[key]:
			return nil, invalid("%s attribute key '%s' is specified more than once", what, key)
		case !rule.allows(v):
			return nil, invalid("%s attribute value '%s' of the key '%s' is not valid", what, v, key)
		}
		seen[key], then[key] = true, v
	}
	return then, nil
}

func (r *request) wroteAttributes(all map[string]string) error {
	members(r.x, "Attributes", slices.Sorted(maps.Keys(all)), func(key string) {
		r.x.text("Key", key)
		r.x.always("Value", all[key])
	})
	return nil
}

func describeBalancerAttributes(r *request) error {
	b, err := r.balancerOf()
	if err != nil {
		return err
	}
	return r.wroteAttributes(b.attributes)
}

func modifyBalancerAttributes(r *request) error {
	b, err := r.balancerOf()
	if err != nil {
		return err
	}
	then, err := r.changeAttributes("Load balancer", b.attributes, balancerAttributes)
	if err != nil {
		return err
	}
	const addresses = "secondary_ips.auto_assigned.per_subnet"
	switch {
	case then["access_logs.s3.enabled"] == "true" && then["access_logs.s3.bucket"] == "":
		return invalid("The access logs bucket name must be specified when access logs are enabled")
	case then[addresses] < b.attributes[addresses]:
		return unfit("The value of '%s' cannot be decreased", addresses)
	}
	b.attributes = then
	return r.wroteAttributes(then)
}

func describeTargetGroupAttributes(r *request) error {
	g, err := r.targetGroupOf()
	if err != nil {
		return err
	}
	return r.wroteAttributes(g.attributes)
}

func modifyTargetGroupAttributes(r *request) error {
	g, err := r.targetGroupOf()
	if err != nil {
		return err
	}
	then, err := r.changeAttributes("Target group", g.attributes, targetGroupAttributes)
	if err != nil {
		return err
	}
	const ends = "target_health_state.unhealthy.connection_termination.enabled"
	datagrams := g.protocol == "UDP" || g.protocol == "TCP_UDP"
	switch {
	case datagrams && then["preserve_client_ip.enabled"] == "false":
		return unfit("Client IP preservation cannot be disabled for target groups with the protocol '%s'", g.protocol)
	case datagrams && then[ends] == "true":
		return unfit("'%s' cannot be enabled for target groups with the protocol '%s'", ends, g.protocol)
	case g.protocol == "TLS" && then["stickiness.enabled"] == "true":
		return unfit("Stickiness is not supported for target groups with the protocol 'TLS'")
	case then[ends] == "true" && then["target_health_state.unhealthy.draining_interval_seconds"] != "0":
		return unfit("The draining interval of unhealthy targets needs '%s' to be false", ends)
	}
	g.attributes = then
	return r.wroteAttributes(then)
}

func describeListenerAttributes(r *request) error {
	l, err := r.listenerOf()
	if err != nil {
		return err
	}
	return r.wroteAttributes(l.attributes)
}

func modifyListenerAttributes(r *request) error {
	l, err := r.listenerOf()
	if err != nil {
		return err
	}
	then, err := r.changeAttributes("Listener", l.attributes, listenerAttributes)
	if err != nil {
		return err
	}
	if l.protocol != "TCP" && l.protocol != "TCP_UDP" {
		return unfit("Listener attribute 'tcp.idle_timeout.seconds' is not supported for listeners with the protocol '%s'", l.protocol)
	}
	l.attributes = then
	return r.wroteAttributes(then)
}
