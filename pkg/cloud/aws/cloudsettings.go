package aws

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud/ini"
)

// settings has a function for each setting of the section Global, keyed by the lower-case
// name. It sets the setting, and returns a warning about a value without effect.
var settings = map[string]func(c *Config, value string) (warning string, err error){
	"kubernetesclusterid":                  func(c *Config, value string) (string, error) { return "", c.setCluster(value, false) },
	"kubernetesclustertag":                 func(c *Config, value string) (string, error) { return "", c.setCluster(value, true) },
	"region":                               func(c *Config, value string) (string, error) { return "", c.setRegion(value) },
	"zone":                                 func(c *Config, value string) (string, error) { return "", c.setZone(value) },
	"vpc":                                  func(c *Config, value string) (string, error) { return "", c.setVPC(value) },
	"routetableid":                         func(c *Config, value string) (string, error) { return "", c.addTables(value) },
	"rolearn":                              func(c *Config, value string) (string, error) { return "", c.setRole(value) },
	"nodeipfamilies":                       (*Config).addFamily,
	"disablesecuritygroupingress":          func(c *Config, value string) (string, error) { return "", c.setNodeRules(value) },
	"elbsecuritygroup":                     func(c *Config, value string) (string, error) { return "", c.setSecurity(value) },
	"supportedtopologyinstancetypepattern": func(c *Config, value string) (string, error) { return "", c.setLayered(value) },
	"nlbsecuritygroupmode":                 func(c *Config, value string) (string, error) { c.setMode(value); return "", nil },
}

// ofBalancers are settings of load balancers that have no effect here.
var ofBalancers = map[string]bool{
	"subnetid": true, "clusterserviceloadbalancerhealthprobemode": true,
	"clusterservicesharedloadbalancerhealthprobeport": true, "clusterservicesharedloadbalancerhealthprobepath": true,
}

// set sets one setting of the section Global. It returns a warning if the setting has no
// effect here.
func (c *Config) set(e ini.Entry) (warning string, err error) {
	name := strings.ToLower(e.Name)
	if to, known := settings[name]; known {
		return to(c, e.Value)
	}
	if ofBalancers[name] {
		return "is about load balancers, and has no effect; use the annotations of Services", nil
	}
	return "is unknown, and has no effect", nil
}

// setCluster sets the cluster's name. Two lines may not give different names.
func (c *Config) setCluster(name string, legacy bool) error {
	if c.Cluster != "" && c.Cluster != name {
		return fmt.Errorf("%.80q, but another line has %.80q; use one", name, c.Cluster)
	}
	c.Cluster, c.Legacy = name, c.Legacy || legacy
	return CheckCluster(name)
}

func (c *Config) setRegion(value string) error {
	c.Region = value
	if !regionName.MatchString(value) {
		return fmt.Errorf("%.40q is not a region; use one like eu-west-1", value)
	}
	return nil
}

// setZone sets the region to that of a zone, unless another line has set it.
func (c *Config) setZone(value string) error {
	if c.Region != "" {
		return nil
	}
	if len(value) < 2 || !regionName.MatchString(value[:len(value)-1]) {
		return fmt.Errorf("%.40q is not a zone; use one like eu-west-1a, or set Region", value)
	}
	c.Region = value[:len(value)-1]
	return nil
}

func (c *Config) setVPC(value string) error {
	c.VPC = value
	if !strings.HasPrefix(value, "vpc-") || !resourceID.MatchString(value) {
		return fmt.Errorf("%.40q is not a VPC; use one like vpc-0123456789abcdef0", value)
	}
	return nil
}

// addTables adds the IDs of route tables, which commas or spaces separate.
func (c *Config) addTables(value string) error {
	for _, id := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' }) {
		if !strings.HasPrefix(id, "rtb-") || !resourceID.MatchString(id) {
			return fmt.Errorf("%.40q is not a route table; use one like rtb-0123456789abcdef0", id)
		}
		if !slices.Contains(c.Tables, id) {
			c.Tables = append(c.Tables, id)
		}
	}
	if len(c.Tables) > mostValues {
		return fmt.Errorf("has %d tables, and a read takes at most %d; tag the tables instead", len(c.Tables), mostValues)
	}
	return nil
}

func (c *Config) setRole(value string) error {
	c.RoleARN = value
	if !strings.HasPrefix(value, "arn:") || !strings.Contains(value, ":role/") {
		return fmt.Errorf("%.80q is not a role; use one like arn:aws:iam::123456789012:role/NAME", value)
	}
	return nil
}

func (c *Config) addFamily(value string) (warning string, err error) {
	switch {
	case value != "ipv4" && value != "ipv6":
		return "", fmt.Errorf("%.40q is not a family; use ipv4 or ipv6, one per line", value)
	case slices.Contains(c.Families, value):
		return "occurs twice", nil
	}
	c.Families = append(c.Families, value)
	return "", nil
}

func (c *Config) setNodeRules(value string) error {
	switch strings.ToLower(value) {
	case "true", "yes", "on", "1":
		c.KeepsNodeRules = true
	case "false", "no", "off", "0":
		c.KeepsNodeRules = false
	default:
		return fmt.Errorf("%.40q is neither true nor false; use one of them", value)
	}
	return nil
}

// longestPattern limits a regular expression, in bytes.
const longestPattern = 1000

func (c *Config) setLayered(value string) error {
	c.Layered = value
	if len(value) > longestPattern {
		return fmt.Errorf("has %d bytes, and the maximum is %d; use a shorter one", len(value), longestPattern)
	}
	if _, err := regexp.Compile(value); err != nil {
		return fmt.Errorf("%.80q is not a regular expression; use one like ^(hpc|trn|p)[0-9]: %w", value, err)
	}
	return nil
}

func (c *Config) setSecurity(value string) error {
	if c.Security = value; value != "" && !isGroup(value) {
		return fmt.Errorf("%.40q is not a security group; use one like sg-0123456789abcdef0", value)
	}
	return nil
}

// setMode records a mode other than Managed. The service controller supports only Managed;
// the other controllers do not depend on the mode.
func (c *Config) setMode(value string) {
	if value != "Managed" {
		c.Mode = value
	}
}
