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

// Config has the settings of the cloud config file of AWS's own controller that have an
// effect here.
type Config struct {
	// Cluster is the cluster's name in the tags. With Legacy it is the value of the tag
	// KubernetesCluster.
	Cluster string
	Legacy  bool
	// Region is the region. Without it, the SDK finds one.
	Region string
	// VPC is the network that everything must be in, if it is set.
	VPC string
	// Tables are the IDs of the route tables that are ours, in the place of those with the
	// cluster's tag.
	Tables []string
	// RoleARN is the role to assume.
	RoleARN string
	// Families are those of Nodes' addresses, "ipv4" and "ipv6", in the order in which
	// Nodes list them.
	Families []string
	// KeepsNodeRules is set if the security groups of Nodes get no rules for load balancers.
	KeepsNodeRules bool
	// Unserved are the settings about the security groups of load balancers that the
	// service controller cannot carry out.
	Unserved []string
	// Endpoints are URLs of services: ec2, elasticloadbalancing, sts and servicequotas.
	Endpoints map[string]string
}

// ReadConfig reads a cloud config file, if path is not empty. It returns warnings about
// what has no effect here.
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

// ParseConfig returns what the text of a cloud config says.
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

// balancers is what settings of load balancers are about.
const balancers = "load balancers"

// elsewhere are settings without effect here, and what they are about.
var elsewhere = map[string]string{
	"subnetid": balancers, "elbsecuritygroup": balancers,
	"clusterserviceloadbalancerhealthprobemode": balancers, "clusterservicesharedloadbalancerhealthprobeport": balancers,
	"clusterservicesharedloadbalancerhealthprobepath": balancers, "nlbsecuritygroupmode": balancers,
	"supportedtopologyinstancetypepattern": "labels of the network's topology",
}

// set takes one setting of the section Global. It returns a warning about one without
// effect.
func (c *Config) set(e ini.Entry) (warning string, err error) {
	name := strings.ToLower(e.Name)
	switch name {
	case "kubernetesclusterid":
		if c.Cluster != "" && c.Cluster != e.Value {
			return "", fmt.Errorf("%.80q, where another line has %.80q; use one", e.Value, c.Cluster)
		}
		c.Cluster = e.Value
		return "", CheckCluster(e.Value)
	case "kubernetesclustertag":
		if c.Cluster != "" && c.Cluster != e.Value {
			return "", fmt.Errorf("%.80q, where another line has %.80q; use one", e.Value, c.Cluster)
		}
		c.Cluster, c.Legacy = e.Value, true
		return "", CheckCluster(e.Value)
	case "region":
		c.Region = e.Value
		if !regionName.MatchString(e.Value) {
			return "", fmt.Errorf("%.40q is not a region; use one like eu-west-1", e.Value)
		}
	case "zone":
		if c.Region == "" && len(e.Value) > 1 && regionName.MatchString(e.Value[:len(e.Value)-1]) {
			c.Region = e.Value[:len(e.Value)-1]
		} else if c.Region == "" {
			return "", fmt.Errorf("%.40q is not a zone; use one like eu-west-1a, or set Region", e.Value)
		}
	case "vpc":
		c.VPC = e.Value
		if !strings.HasPrefix(e.Value, "vpc-") || !resourceID.MatchString(e.Value) {
			return "", fmt.Errorf("%.40q is not a VPC; use one like vpc-0123456789abcdef0", e.Value)
		}
	case "routetableid":
		for _, id := range strings.FieldsFunc(e.Value, func(r rune) bool { return r == ',' || r == ' ' }) {
			if !strings.HasPrefix(id, "rtb-") || !resourceID.MatchString(id) {
				return "", fmt.Errorf("%.40q is not a route table; use one like rtb-0123456789abcdef0", id)
			}
			if !slices.Contains(c.Tables, id) {
				c.Tables = append(c.Tables, id)
			}
		}
		if len(c.Tables) > mostValues {
			return "", fmt.Errorf("has %d tables, and a read takes at most %d; tag the tables instead", len(c.Tables), mostValues)
		}
	case "rolearn":
		c.RoleARN = e.Value
		if !strings.HasPrefix(e.Value, "arn:") || !strings.Contains(e.Value, ":role/") {
			return "", fmt.Errorf("%.80q is not a role; use one like arn:aws:iam::123456789012:role/NAME", e.Value)
		}
	case "nodeipfamilies":
		if e.Value != "ipv4" && e.Value != "ipv6" {
			return "", fmt.Errorf("%.40q is not a family; use ipv4 or ipv6, one per line", e.Value)
		}
		if slices.Contains(c.Families, e.Value) {
			return "occurs twice", nil
		}
		c.Families = append(c.Families, e.Value)
	case "disablesecuritygroupingress":
		switch strings.ToLower(e.Value) {
		case "true", "yes", "on", "1":
			c.KeepsNodeRules = true
		case "false", "no", "off", "0":
			c.KeepsNodeRules = false
		default:
			return "", fmt.Errorf("%.40q is neither true nor false; use one of them", e.Value)
		}
	default:
		if part, known := elsewhere[name]; known {
			// Managed is what the service controller does.
			if name == "elbsecuritygroup" || name == "nlbsecuritygroupmode" && e.Value != "" && !strings.EqualFold(e.Value, "managed") {
				c.Unserved = append(c.Unserved, e.Name)
			}
			if part == balancers {
				return "is about " + part + ", and has no effect; use the annotations of Services", nil
			}
			return "is about " + part + ", and has no effect", nil
		}
		return "is unknown, and has no effect", nil
	}
	return "", nil
}

// balancersID is the service of network load balancers in the files of AWS's own
// controller, which has another one for classic load balancers.
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

// override takes a section ServiceOverride.
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

// tagFilter returns the filter for what has the cluster's tag.
func (c Config) tagFilter() types.Filter {
	if c.Legacy {
		return filter("tag:KubernetesCluster", c.Cluster)
	}
	return filter("tag-key", c.tag())
}

// ours returns the filters for what is the cluster's.
func (c Config) ours() []types.Filter {
	all := []types.Filter{c.tagFilter()}
	if c.VPC != "" {
		all = append(all, filter("vpc-id", c.VPC))
	}
	return all
}
