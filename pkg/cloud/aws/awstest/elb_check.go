package awstest

import (
	"regexp"
	"strconv"
)

// check is how a target group checks the health of its targets.
type check struct {
	protocol, port, path, codes           string
	interval, timeout, healthy, unhealthy int
}

// trafficPort is the port on which a target gets packets.
const trafficPort = "traffic-port"

func (c check) http() bool { return c.protocol == "HTTP" || c.protocol == "HTTPS" }

// newCheck reads the health check of a new target group.
func (r *request) newCheck(g *targetGroup) (check, error) {
	return r.changeCheck(g, check{protocol: "TCP", port: trafficPort, interval: 30, healthy: 5, unhealthy: 2})
}

var codes = regexp.MustCompile(`^[2-5][0-9]{2}(-[2-5][0-9]{2})?(,[2-5][0-9]{2}(-[2-5][0-9]{2})?)*$`)

// changeCheck returns a health check with the changes of a request.
func (r *request) changeCheck(g *targetGroup, c check) (check, error) {
	f, before := r.form, c
	if f.has("HealthCheckEnabled") && f.text("HealthCheckEnabled") != "true" {
		return c, unfit("Health check enabled must be true for target groups with target type '%s'", g.kind)
	}
	var err error
	if c.protocol, err = r.among(f, "HealthCheckProtocol", c.protocol, "TCP", "HTTP", "HTTPS", "TLS", "UDP", "TCP_UDP", "GENEVE"); err != nil {
		return c, err
	}
	if c.protocol != "TCP" && !c.http() {
		return c, unfit("Health check protocol '%s' is not supported", c.protocol)
	}
	if c.protocol != before.protocol && !c.http() {
		c.path, c.codes = "", ""
	}
	if c.timeout == 0 { // a new one
		if c.timeout = 10; c.protocol == "HTTP" {
			c.timeout = 6
		}
	}
	for _, n := range []struct {
		name        string
		least, most int
		to          *int
	}{
		{"HealthCheckIntervalSeconds", 5, 300, &c.interval}, {"HealthCheckTimeoutSeconds", 2, 120, &c.timeout},
		{"HealthyThresholdCount", 2, 10, &c.healthy}, {"UnhealthyThresholdCount", 2, 10, &c.unhealthy},
	} {
		if *n.to, err = r.between(f, n.name, n.least, n.most, *n.to); err != nil {
			return c, err
		}
	}
	if c.timeout >= c.interval && !f.has("HealthCheckTimeoutSeconds") && before.timeout == 0 {
		c.timeout = c.interval - 1
	}
	if c.timeout > c.interval {
		return c, invalid("Health check timeout '%d' must be smaller than or equal to the interval '%d'", c.timeout, c.interval)
	}
	if p := f.text("HealthCheckPort"); p != "" {
		if n, err := strconv.Atoi(p); p != trafficPort && (err != nil || n < 1 || n > 65535) {
			return c, invalid("Health check port '%s' must be 'traffic-port' or in the range [1, 65535]", p)
		}
		c.port = p
	}
	return r.changeHTTPCheck(c)
}

// changeHTTPCheck is changeCheck for what only HTTP has.
func (r *request) changeHTTPCheck(c check) (check, error) {
	path, match := r.form.text("HealthCheckPath"), r.form.at("Matcher").text("HttpCode")
	switch {
	case !c.http() && path != "":
		return c, unfit("Health check path cannot be specified for health checks with the protocol '%s'", c.protocol)
	case !c.http() && match != "":
		return c, unfit("Health check matcher HTTP code cannot be specified for health checks with the protocol '%s'", c.protocol)
	case path != "" && (path[0] != '/' || len(path) > 1024):
		return c, invalid("Health check path '%s' must begin with '/' and have at most 1024 characters", path)
	case match != "" && !codes.MatchString(match):
		return c, invalid("Health check matcher HTTP code '%s' must be within '200-599'", match)
	case !c.http():
		return c, nil
	}
	for _, v := range []struct {
		to              *string
		asked, standard string
	}{{&c.path, path, "/"}, {&c.codes, match, "200-399"}} {
		if v.asked != "" {
			*v.to = v.asked
		} else if *v.to == "" {
			*v.to = v.standard
		}
	}
	return c, nil
}

func (c check) write(x *answer) {
	x.text("HealthCheckProtocol", c.protocol)
	x.text("HealthCheckPort", c.port)
	x.flag("HealthCheckEnabled", true)
	x.number("HealthCheckIntervalSeconds", c.interval)
	x.number("HealthCheckTimeoutSeconds", c.timeout)
	x.number("HealthyThresholdCount", c.healthy)
	x.number("UnhealthyThresholdCount", c.unhealthy)
	if c.http() {
		x.text("HealthCheckPath", c.path)
		x.within("Matcher", func() { x.text("HttpCode", c.codes) })
	}
}
