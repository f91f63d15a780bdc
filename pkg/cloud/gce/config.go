package gce

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud/ini"
)

// Config has the settings of gce.conf, the cloud config file of Google's own controller,
// that have an effect here.
type Config struct {
	// Project is the project of the instances. Without it, it is the one of the
	// credentials.
	Project string
	// Network is the name of the network whose routes are ours, and NetworkProject the
	// project that it is in. Without them, the network is that of the instance that the
	// program runs on, in the project of the instances.
	Network, NetworkProject string
	// Zone limits the lookup of instances by name to a zone, or to its region if Regional
	// is set. Without it, all zones of the project count.
	Zone     string
	Regional bool
	// IPv6First is set if Nodes list their IPv6 addresses first.
	IPv6First bool
	// Endpoint is the API's address.
	Endpoint string
}

// Names are what errors and warnings call settings that are not in the cloud config, like
// --gce-route-limit. Plain words stand for an empty one.
type Names struct {
	Secondary  string // the secondary range of podCIDRs
	RouteLimit string // Options.RouteLimit
}

// orWords returns n without empty names.
func (n Names) orWords() Names {
	return Names{Secondary: cmp.Or(n.Secondary, "another setting"), RouteLimit: cmp.Or(n.RouteLimit, "the limit of routes")}
}

// ReadConfig reads a cloud config file, if path is not empty. It returns warnings about
// what has no effect here.
func ReadConfig(path string, names Names) (Config, []string, error) {
	if path == "" {
		return Config{}, nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, nil, err
	}
	return ParseConfig(string(text), names)
}

// ParseConfig returns what the text of a cloud config says.
func ParseConfig(text string, names Names) (c Config, warnings []string, err error) {
	entries, err := ini.Parse(text)
	if err != nil {
		return Config{}, nil, err
	}
	for _, e := range entries {
		if e.Section != "global" {
			warnings = append(warnings, fmt.Sprintf("line %d: unknown section %.40q has no effect", e.Line, e.Section))
			continue
		}
		warning, err := c.set(e, names.orWords())
		if err != nil {
			return Config{}, nil, fmt.Errorf("line %d: %s: %w", e.Line, e.Name, err)
		}
		if warning != "" {
			warnings = append(warnings, fmt.Sprintf("line %d: %s %s", e.Line, e.Name, warning))
		}
	}
	return c, warnings, nil
}

// elsewhere are settings without effect here, and what they are about.
var elsewhere = map[string]string{
	"subnetwork-name": "load balancers", "node-tags": "the firewall rules of load balancers", "node-instance-prefix": "the firewall rules of load balancers",
	"alpha-features": "load balancers", "container-api-endpoint": "GKE clusters",
}

// set takes one setting of the section Global. It returns a warning about one without
// effect.
func (c *Config) set(e ini.Entry, names Names) (warning string, err error) {
	switch name := strings.ToLower(e.Name); name {
	case "project-id":
		c.Project = e.Value
		return "", CheckProject(e.Value)
	case "network-project-id":
		c.NetworkProject = e.Value
		return "", CheckProject(e.Value)
	case "network-name":
		return "", c.setNetwork(e.Value)
	case "local-zone":
		if c.Zone = e.Value; !zoneName.MatchString(e.Value) {
			return "", fmt.Errorf("%.60q is not a zone; use one like europe-west1-b", e.Value)
		}
	case "multizone", "regional":
		on, err := parseBool(e.Value)
		c.Regional = c.Regional || on
		return "", err
	case "stack-type":
		switch e.Value {
		case "", "IPV4", "IPV4_IPV6", "IPV6":
			c.IPv6First = e.Value == "IPV6"
		default:
			return "", fmt.Errorf("%.40q is not a type of stack; use IPV4, IPV4_IPV6 or IPV6", e.Value)
		}
	case "api-endpoint":
		u, err := url.Parse(e.Value)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
			return "", fmt.Errorf("not a URL without a user; use one like %s", Endpoint)
		}
		c.Endpoint = e.Value
	case "token-url":
		if e.Value != "nil" {
			return "", fmt.Errorf("a token server of its own is not supported; use nil, and Application Default Credentials")
		}
	case "secondary-range-name":
		return "has no effect; " + names.Secondary + " names the secondary range", nil
	case "token-body":
		return "has no effect without token-url", nil
	default:
		if part, known := elsewhere[name]; known {
			return "is about " + part + ", and has no effect", nil
		}
		return "is unknown, and has no effect", nil
	}
	return "", nil
}

// setNetwork takes the name of a network, or its URL.
func (c *Config) setNetwork(text string) error {
	if !strings.Contains(text, "/") {
		if c.Network = text; !instanceName.MatchString(text) {
			return fmt.Errorf("%.80q is not the name of a network; use one like default", text)
		}
		return nil
	}
	id := networkOf(text)
	if id == "" {
		return fmt.Errorf("%.200q is not the URL of a network; use one like projects/my-project-1/global/networks/default", text)
	}
	c.NetworkProject, c.Network, _ = strings.Cut(id, "/")
	return nil
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("%.40q is neither true nor false; use one of them", text)
}

// has reports whether instances of a zone are looked up by name.
func (c Config) has(zone string) bool {
	switch {
	case c.Zone == "":
		return true
	case c.Regional:
		return regionOf(zone) == regionOf(c.Zone)
	}
	return zone == c.Zone
}

// regionOf returns the region of a zone.
func regionOf(zone string) string {
	i := strings.LastIndexByte(zone, '-')
	return zone[:max(i, 0)]
}
