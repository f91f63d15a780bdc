package aws

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/cloud/ini"
)

// Config holds those settings of a cloud config file that have an effect here. The file has
// the format of AWS's own controller.
type Config struct {
	// Cluster is the cluster's name in the tags. With Legacy it is the value of the tag
	// KubernetesCluster.
	Cluster string
	Legacy  bool
	// Region is the region. Without it, the SDK finds one.
	Region string
	// VPC, if set, is the network of all objects of the cluster.
	VPC string
	// Tables, if set, are the IDs of the route tables that are ours, instead of those with
	// the cluster's tag.
	Tables []string
	// RoleARN is the role to assume.
	RoleARN string
	// Families are the families of Nodes' addresses, "ipv4" and "ipv6", in the order in
	// which Nodes list them.
	Families []string
	// Layered is the regular expression of the types of instances whose Nodes get the labels of
	// the network's topology, or "".
	Layered string
	// KeepsNodeRules is set if the security groups of Nodes must not get rules for load balancers.
	KeepsNodeRules bool
	// Security is the ID of the security group of load balancers whose Services name none.
	// Without it, each gets one of its own.
	Security string
	// Mode is a mode of security groups of load balancers that AWS's own controller does
	// not have either, or "".
	Mode string
	// Endpoints are URLs of services: ec2, elasticloadbalancing, sts and servicequotas.
	Endpoints map[string]string
}

// ReadConfig reads a cloud config file, if path is not empty. It returns warnings about
// settings that have no effect here.
func ReadConfig(path string) (Config, []string, error) {
	if path == "" {
		return ParseConfig("")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, nil, err
	}
	return ParseConfig(string(text))
}

// ParseConfig parses the text of a cloud config.
func ParseConfig(text string) (Config, []string, error) {
	c := Config{Endpoints: make(map[string]string)}
	entries, err := ini.Parse(text)
	if err != nil {
		return c, nil, err
	}
	var warnings []string
	overrides := make(map[string]*override)
	var order []string
	for _, e := range entries {
		switch e.Section {
		case "global":
			warning, err := c.set(e)
			if err != nil {
				return c, nil, fmt.Errorf("line %d: %s: %w", e.Line, e.Name, err)
			}
			if warning != "" {
				warnings = append(warnings, fmt.Sprintf("line %d: %s %s", e.Line, e.Name, warning))
			}
		case "serviceoverride":
			if overrides[e.Subsection] == nil {
				overrides[e.Subsection] = &override{line: e.Line}
				order = append(order, e.Subsection)
			}
			overrides[e.Subsection].set(e)
		default:
			warnings = append(warnings, fmt.Sprintf("line %d: unknown section %.40q has no effect", e.Line, e.Section))
		}
	}
	for _, name := range order {
		warning, err := c.override(*overrides[name])
		if err != nil {
			return c, nil, err
		}
		if warning != "" {
			warnings = append(warnings, warning)
		}
	}
	if len(c.Families) == 0 {
		c.Families = []string{"ipv4"}
	}
	return c, warnings, nil
}

// balancersID is the name of the service of network load balancers in a cloud config. Classic
// load balancers have another one.
const balancersID = "elastic load balancing v2"

// override is a section ServiceOverride.
type override struct {
	line                 int
	service, region, url string
	signing              bool
}

func (o *override) set(e ini.Entry) {
	switch strings.ToLower(e.Name) {
	case "service":
		o.service = strings.ToLower(e.Value)
		if o.service == balancersID {
			o.service = "elasticloadbalancing"
		}
	case "region":
		o.region = e.Value
	case "url":
		o.url = e.Value
	default:
		o.signing = true
	}
}

// override sets the endpoint from a section ServiceOverride. It returns a warning about a
// section without effect.
func (c *Config) override(o override) (warning string, err error) {
	if strings.Contains(o.url, "@") { // it may contain a password
		return "", fmt.Errorf("line %d: ServiceOverride: URL with a user; leave the user out", o.line)
	}
	u, err := url.Parse(o.url)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return "", fmt.Errorf("line %d: ServiceOverride: %.80q is not a URL; use one like https://ec2.example.org", o.line, o.url)
	}
	switch {
	case !slices.Contains([]string{"ec2", "elasticloadbalancing", "sts", "servicequotas"}, o.service):
		return fmt.Sprintf("line %d: ServiceOverride for %.40q has no effect: that service is not used", o.line, o.service), nil
	case c.Region != "" && o.region != "" && o.region != c.Region:
		return fmt.Sprintf("line %d: ServiceOverride for region %.40q has no effect: the region is %s", o.line, o.region, c.Region), nil
	}
	c.Endpoints[o.service] = o.url
	if o.signing {
		return fmt.Sprintf("line %d: ServiceOverride: only Service, Region and URL have an effect", o.line), nil
	}
	return "", nil
}

// tag returns the key of the cluster's tag, or the legacy tag with its value.
func (c Config) tag() string {
	if c.Legacy {
		return "KubernetesCluster=" + c.Cluster
	}
	return "kubernetes.io/cluster/" + c.Cluster
}

// tagFilter returns the filter for objects with the cluster's tag.
func (c Config) tagFilter() types.Filter {
	if c.Legacy {
		return filter("tag:KubernetesCluster", c.Cluster)
	}
	return filter("tag-key", c.tag())
}

// ours returns the filters for the cluster's objects.
func (c Config) ours() []types.Filter {
	all := []types.Filter{c.tagFilter()}
	if c.VPC != "" {
		all = append(all, filter("vpc-id", c.VPC))
	}
	return all
}
