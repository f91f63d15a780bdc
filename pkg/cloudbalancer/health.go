package cloudbalancer

import (
	"strconv"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
)

const (
	// trafficPort is the port of a target itself.
	trafficPort = "traffic-port"
	// proxyPort and proxyPath are where kube-proxy, and what replaces it, says that a Node
	// forwards.
	proxyPort, proxyPath = "10256", "/healthz"
)

// health reads how the targets of a port are checked.
func (r *reader) health(s Service, backend cloud.Protocol) cloud.HealthCheck {
	h := cloud.HealthCheck{Protocol: cloud.TCP, Port: trafficPort, Interval: 30, Timeout: 10, Healthy: 3, Unhealthy: 3}
	switch {
	case s.Local && s.HealthPort > 0:
		h = cloud.HealthCheck{Protocol: cloud.HTTP, Port: strconv.Itoa(s.HealthPort), Path: proxyPath, Interval: 10, Timeout: 6, Healthy: 2, Unhealthy: 2}
	case backend == cloud.UDP: // nothing answers TCP on such a port
		h.Protocol, h.Port, h.Path, h.Timeout = cloud.HTTP, proxyPort, proxyPath, 6
	}
	if text, is := r.text(aCheckProtocol); is {
		switch p := cloud.Protocol(strings.ToUpper(text)); p {
		case cloud.TCP, cloud.HTTP, cloud.HTTPS:
			h.Protocol = p
		default:
			r.fatal(aCheckProtocol, "is no protocol of health checks", "use TCP, HTTP or HTTPS")
		}
	}
	if text, is := r.text(aCheckPort); is && text != trafficPort {
		h.Port = strconv.Itoa(r.number(aCheckPort, 1, 65535, 10256))
	} else if is {
		h.Port = trafficPort
	}
	if path, is := r.text(aCheckPath); is {
		if h.Path = path; !strings.HasPrefix(path, "/") || len(path) > 1024 {
			r.fatal(aCheckPath, "is no path", "use one like /healthz, of at most 1024 characters")
		}
	}
	h.Interval = r.number(aCheckInterval, 5, 300, h.Interval)
	if most := h.Interval; h.Timeout > most {
		h.Timeout = max(2, most-1)
	}
	h.Timeout = r.number(aCheckTimeout, 2, 120, h.Timeout)
	if h.Timeout > h.Interval {
		r.fatal(aCheckTimeout, "is longer than the interval of "+strconv.Itoa(h.Interval)+" s", "shorten it, or lengthen "+Prefix+aCheckInterval)
	}
	h.Healthy = r.number(aCheckHealthy, 2, 10, h.Healthy)
	h.Unhealthy = r.number(aCheckUnhealthy, 2, 10, h.Unhealthy)
	if h.Protocol == cloud.TCP {
		h.Path, h.Codes = "", ""
		return h
	}
	if h.Path == "" {
		h.Path = "/"
	}
	if codes, is := r.text(aCheckCodes); is {
		h.Codes = codes
	}
	return h
}
