package aws

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestCloudConfigOfAWS(t *testing.T) {
	text := "\ufeff; the file of the cloud controller manager\r\n" + `
[Global]
Zone = eu-west-1b
vpc = "vpc-0a1b2c3d"
SubnetID=subnet-1   # of load balancers
RouteTableID = rtb-0a, rtb-0b
RouteTableID = rtb-0c
KubernetesClusterID = "prod"
RoleARN = arn:aws:iam::123456789012:role/nodes
DisableSecurityGroupIngress
NodeIPFamilies = ipv6
NodeIPFamilies = ipv4
Colour = blue

[ServiceOverride "1"]
Service = EC2
Region = eu-west-1
URL = http://127.0.0.1:5000
SigningRegion = eu-west-1
[serviceoverride "2"]
Service = s3
URL = https://s3.example.org
[ServiceOverride "3"]
Service = sts
Region = us-east-1
URL = https://sts.example.org
[ServiceOverride "4"]
Service = Elastic Load Balancing v2
Region = eu-west-1
URL = https://elb.example.org
[Other]
x = y
`
	path := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, warnings, err := ReadConfig(path)
	want := Config{
		Cluster: "prod", Region: "eu-west-1", VPC: "vpc-0a1b2c3d", Tables: []string{"rtb-0a", "rtb-0b", "rtb-0c"}, RoleARN: "arn:aws:iam::123456789012:role/nodes",
		Families: []string{"ipv6", "ipv4"}, KeepsNodeRules: true, Endpoints: map[string]string{"ec2": "http://127.0.0.1:5000", "elasticloadbalancing": "https://elb.example.org"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	all := strings.Join(warnings, "\n")
	for _, part := range []string{
		"line 6: SubnetID is about load balancers, and has no effect; use the annotations of Services", "Colour is unknown",
		"only Service, Region and URL have an effect", `"s3" has no effect`, `region "us-east-1" has no effect`, `unknown section "other"`,
	} {
		if !strings.Contains(all, part) {
			t.Errorf("no warning has %q:\n%s", part, all)
		}
	}
	if len(warnings) != 6 {
		t.Errorf("%d warnings:\n%s", len(warnings), all)
	}
}

func TestEmptyCloudConfig(t *testing.T) {
	c, warnings, err := ReadConfig("")
	if err != nil || len(warnings) > 0 || !reflect.DeepEqual(c.Families, []string{"ipv4"}) {
		t.Errorf("%+v, %q, %v", c, warnings, err)
	}
	if _, _, err := ReadConfig("/nonexistent/cloud.conf"); err == nil || !strings.Contains(err.Error(), "/nonexistent/cloud.conf") {
		t.Errorf("%v", err)
	}
}

func TestLegacyTag(t *testing.T) {
	c, _, err := ParseConfig("[Global]\nKubernetesClusterTag = prod\n")
	if err != nil || c.tag() != "KubernetesCluster=prod" || *c.tagFilter().Name != "tag:KubernetesCluster" || c.tagFilter().Values[0] != "prod" {
		t.Errorf("%+v, %v", c, err)
	}
	if c, _, err = ParseConfig("[Global]\nKubernetesClusterID = prod\nVPC=vpc-1\n"); err != nil || c.tag() != "kubernetes.io/cluster/prod" || len(c.ours()) != 2 {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestSecurityGroupSettings: settings of security groups reach the service controller, which
// applies or rejects them.
func TestSecurityGroupSettings(t *testing.T) {
	for text, want := range map[string]Config{
		"DisableSecurityGroupIngress":                                      {KeepsNodeRules: true},
		"DisableSecurityGroupIngress = true":                               {KeepsNodeRules: true},
		"DisableSecurityGroupIngress\nDisableSecurityGroupIngress = false": {},
		"NLBSecurityGroupMode = Managed":                                   {},
		"NLBSecurityGroupMode = Other":                                     {Mode: "Other"},
		"ElbSecurityGroup = sg-0123456789abcdef0":                          {Security: "sg-0123456789abcdef0"},
	} {
		got, _, err := ParseConfig("[Global]\n" + text)
		if err != nil || got.KeepsNodeRules != want.KeepsNodeRules || got.Security != want.Security || got.Mode != want.Mode {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestWrongCloudConfigs(t *testing.T) {
	for text, part := range map[string]string{
		"Zone = a":                       "before the first section",
		"[Global":                        "not a section",
		"[Global] x":                     "not a section",
		"[Global x]":                     "not a section",
		"[9]":                            "not a section",
		"[Global]\n= 5":                  "not the name",
		"[Global]\nRegion = \"eu-west-1": "line 2: Region: a quote is not closed",
		"[Global]\nRegion = eu\\west":    "write it twice",
		"[Global]\nRegion = ireland":     "use one like eu-west-1",
		"[Global]\nZone = b":             "use one like eu-west-1a",
		"[Global]\nVPC = subnet-1":       "use one like vpc-",
		"[Global]\nRouteTableID = rtb-*": "use one like rtb-",
		"[Global]\nRoleARN = nodes":      "use one like arn:",
		"[Global]\nSupportedTopologyInstanceTypePattern = (p5":                          "not a regular expression",
		"[Global]\nSupportedTopologyInstanceTypePattern = " + strings.Repeat("p", 1001): "use a shorter one",
		"[Global]\nNodeIPFamilies = ipv5":                                               "use ipv4 or ipv6",
		"[Global]\nDisableSecurityGroupIngress = maybe":                                 "neither true nor false",
		"[Global]\nKubernetesClusterID = *":                                             "not the name of a cluster",
		"[Global]\nKubernetesClusterID = ":                                              "has no name",
		"[Global]\nKubernetesClusterID = a\nKubernetesClusterTag = b":                   "use one",
		"[ServiceOverride \"1\"]\nService = ec2\nURL = x":                               "use one like https://",
		"[ServiceOverride \"1\"]\nURL = https://u:p@h":                                  "ServiceOverride: URL with a user; leave the user out",
	} {
		_, _, err := ParseConfig(text)
		if part == "" && err != nil || part != "" && (err == nil || !strings.Contains(err.Error(), part)) {
			t.Errorf("%q: %v", text, err)
		}
	}
	var b strings.Builder
	b.WriteString("[Global]\nRouteTableID = ")
	for i := range 201 {
		fmt.Fprintf(&b, "rtb-%x ", i)
	}
	if _, _, err := ParseConfig(b.String()); err == nil || !strings.Contains(err.Error(), "at most 200") {
		t.Errorf("%v", err)
	}
}

// FuzzCloudConfig: each accepted value is valid. So no ambiguous value reaches a filter or a
// request.
func FuzzCloudConfig(f *testing.F) {
	for _, seed := range []string{"[Global]\nZone=eu-west-1a\nVPC=vpc-1\n", "[ServiceOverride \"1\"]\nService=ec2\nURL=http://h\n", "[Global]\nRouteTableID=rtb-1,rtb-2\nKubernetesClusterID=\"a\\\"b\""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, _, err := ParseConfig(text)
		if err != nil {
			return
		}
		if c.Cluster != "" && CheckCluster(c.Cluster) != nil || c.Region != "" && !regionName.MatchString(c.Region) || strings.ContainsAny(c.VPC+strings.Join(c.Tables, "")+c.Cluster, "*?\\") {
			t.Errorf("%q: %+v", text, c)
		}
	})
}
