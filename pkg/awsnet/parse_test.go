package awsnet

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseFile(t *testing.T) {
	m, err := ParseFile([]byte(`
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSCluster
metadata:
  name: prod
  annotations: {tulle.net/nat-gateways: Single, tulle.net/gateway-endpoints: "s3, ", tulle.net/keep-addresses: "true"}
spec:
  region: eu-west-1
  controlPlaneEndpoint: {host: "", port: 0}
  identityRef: {kind: AWSClusterControllerIdentity, name: default}
  network:
    vpc: {cidrBlock: 10.1.0.0/16, availabilityZoneUsageLimit: 2}
`))
	if err != nil || m.Spec.Cluster != "prod" || m.Spec.UID == "" || m.Spec.NATGateways != NATSingle || !reflect.DeepEqual(*m.Spec.GatewayEndpoints, []string{"s3"}) || !m.Spec.KeepAddresses || m.Spec.Network.VPC.CIDR != "10.1.0.0/16" {
		t.Errorf("%+v, %v", m, err)
	}
	again, _ := ParseFile([]byte(fileOf("{}")[:strings.Index(fileOf("{}"), "spec:")]))
	if again.UID != m.UID {
		t.Errorf("the UID of a name is %s and then %s", m.UID, again.UID)
	}
	other, _ := ParseFile([]byte("apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: AWSCluster\nmetadata: {name: prod, namespace: other}"))
	if other.UID == m.UID {
		t.Error("clusters of two namespaces have one UID")
	}
}

func TestParseFileRefuses(t *testing.T) {
	head := "apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: AWSCluster\n"
	for text, want := range map[string]string{
		fileOf("netwrok: {}"): `unknown field "netwrok"`,
		fileOf("network: {vpc: {cidrBlock: 10.0.0.0/16, cidrBlock: 10.1.0.0/16}}"): "already set in map",
		"kind: Cluster": "needs apiVersion: infrastructure.cluster.x-k8s.io/v1beta2 and kind: AWSCluster",
		head:            "metadata.name is empty",
		head + "metadata: {name: a}\n---\n" + head:                                                                 "several documents",
		fileOf("s3Bucket: {name: b}"):                                                                              "makes no buckets; remove it",
		strings.Repeat(" ", largestFile+1):                                                                         "leave out what is not the network's",
		head + "metadata: {name: a, annotations: {tulle.net/keep-addresses: maybe}}":                               "neither true nor false",
		head + "metadata: {name: a, annotations: {tulle.net/nat-gateways: None}}\nspec: {natGateways: Single}":     "differs from spec.natGateways; remove one of them",
		head + "metadata: {name: a, annotations: {tulle.net/gateway-endpoints: s3}}\nspec: {gatewayEndpoints: []}": "differs from spec.gatewayEndpoints",
	} {
		if _, err := ParseFile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s\ngot %v, want %s", text, err, want)
		}
	}
}

// TestParseObjectIgnoresFieldsOfNewerServers shows the one difference between
// ParseObject and ParseFile.
func TestParseObjectIgnoresFieldsOfNewerServers(t *testing.T) {
	m, err := ParseObject([]byte(`{"metadata":{"name":"a","uid":"u"},"spec":{"region":"eu-west-1","brandNew":1,"network":{"vpc":{"id":"vpc-0123abcd","brandNew":{}}}},"status":{"ready":true}}`))
	if err != nil || m.Spec.UID != "u" || m.Spec.Network.VPC.ID != "vpc-0123abcd" {
		t.Errorf("%+v, %v", m, err)
	}
}

func FuzzParseAndComplete(f *testing.F) {
	f.Add([]byte(fileOf("network: {vpc: {cidrBlock: 10.0.0.0/24, ipv6: {}}}\nbastion: {enabled: true}\nnatGateways: Single")))
	f.Add([]byte(fileOf("network:\n  subnets:\n  - {id: a, availabilityZone: us-east-1a, cidrBlock: 10.0.0.0/28, isPublic: true, isIpv6: true}\n  additionalNodeIngressRules:\n  - {description: x, protocol: '58', fromPort: -1, toPort: -1, ipv6CidrBlocks: ['fd00::/8'], sourceSecurityGroupRoles: [node]}")))
	f.Add([]byte(fileOf("network: {vpc: {id: vpc-0123abcd}, subnets: [{id: subnet-0123abcd, availabilityZone: us-east-1-wl1-bos-wlz-1, isPublic: true}]}")))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseFile(data)
		if err != nil {
			return
		}
		n, problems := Complete(m.Spec, zones)
		for _, p := range problems {
			if p.Field == "" || p.Text == "" || len(p.Text) > 2000 {
				t.Errorf("%+v", p)
			}
		}
		if len(problems) == 0 {
			checkNetwork(t, n)
		}
	})
}

// checkNetwork checks what must hold for every Network.
func checkNetwork(t testing.TB, n Network) {
	t.Helper()
	want := Desired(n)
	for k, w := range want {
		if w.Object.Key() != k || k.Name == "" {
			t.Errorf("%s has the key %s", k, w.Object.Key())
		}
		if parsed, ok := ParseKey(k.String()); !ok || parsed != k {
			t.Errorf("%s is read as %s", k, parsed)
		}
		if w.Tags != nil && !n.Owner.Owns(w.Tags) {
			t.Errorf("%s is not ours: %v", k, w.Tags)
		}
		if len(w.Tags) > 50 {
			t.Errorf("%s has %d tags", k, len(w.Tags))
		}
		for _, r := range w.Object.refs() {
			if _, there := want[r.Key]; r != (Ref{}) && r.ID == "" && !there {
				t.Errorf("%s needs %s, which the network does not have", k, r)
			}
		}
		if s, is := w.Object.(Subnet); is {
			if a, ok := want[Association{Subnet: To(KindSubnet, s.Name)}.Key()]; !ok || want[a.Object.(Association).Table.Key].Object == nil {
				t.Errorf("%s has no table", k)
			}
			for other, o := range want {
				if b, is := o.Object.(Subnet); is && other != k && (s.IPv4.IsValid() && b.IPv4.IsValid() && s.IPv4.Overlaps(b.IPv4) || s.IPv6 != (Slice{}) && s.IPv6 == b.IPv6) {
					t.Errorf("%s overlaps %s", k, other)
				}
			}
		}
	}
}
