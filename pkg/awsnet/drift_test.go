package awsnet_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

var anywhere = netip.MustParsePrefix("0.0.0.0/0")

const prodTag = "sigs.k8s.io/cluster-api-provider-aws/cluster/prod"

// ours returns the object of ours with a key such as "vpc/main".
func (w *world) ours(key string) awsnet.Found {
	w.Helper()
	want := w.want(specs["three zones"])
	k, ok := awsnet.ParseKey(key)
	f := awsnet.Sort(w.owner, want, w.account.Read()).Ours[k]
	if !ok || f.Object == nil {
		w.Fatalf("there is no %s", key)
	}
	return f
}

// TestTenChangesByHand makes ten changes by hand, the same that were tried with Cluster
// API's AWS provider. One plan repairs each.
func TestTenChangesByHand(t *testing.T) {
	other := awsnet.Foreign("igw-f0000001")
	for _, test := range []struct {
		name   string
		change func(w *world) (kept string) // the ID of a foreign object that stays
		calls  string                       // calls of the repair
	}{
		{"a default route is gone", func(w *world) string {
			w.account.Drop(w.ours("route/private-us-east-1a/0.0.0.0/0").ID)
			return ""
		}, "CreateRoute"},
		{"a default route has another gateway", func(w *world) string {
			f := w.ours("route/private-us-east-1a/0.0.0.0/0")
			table := w.ours("route-table/private-us-east-1a").ID
			igw := w.ours("internet-gateway/main").ID
			f.Object = awsnet.Route{Table: awsnet.Foreign(table), To: netip.MustParsePrefix("0.0.0.0/0"), Via: awsnet.Foreign(igw)}
			w.account.Set(f)
			return ""
		}, "ReplaceRoute"},
		{"an association is removed", func(w *world) string {
			w.account.Drop(w.ours("association/prod-subnet-private-us-east-1b").ID)
			return ""
		}, "AssociateRouteTable"},
		{"a foreign route to an internet gateway in a private table", func(w *world) string {
			table := w.ours("route-table/private-us-east-1a").ID
			return w.account.Put(awsnet.Route{Table: awsnet.Foreign(table), To: netip.MustParsePrefix("192.0.2.0/24"), Via: awsnet.Foreign(w.ours("internet-gateway/main").ID)}, nil)
		}, ""},
		{"a NAT gateway is deleted", func(w *world) string {
			w.account.Drop(w.ours("nat-gateway/us-east-1c").ID)
			return ""
		}, "CreateNatGateway ReplaceRoute"},
		{"a rule is revoked", func(w *world) string {
			w.account.Drop(w.ours("rule/controlplane/in/tcp/2379-2379/controlplane").ID)
			return ""
		}, "AuthorizeSecurityGroupIngress"},
		{"a foreign rule is added", func(w *world) string {
			group := awsnet.Foreign(w.ours("security-group/node").ID)
			return w.account.Put(awsnet.Rule{Owner: group, Protocol: "tcp", From: 9100, To: 9100, Addresses: netip.MustParsePrefix("10.0.0.0/8")}, nil)
		}, ""},
		{"an egress rule is removed", func(w *world) string {
			w.account.Drop(w.ours("rule/node/out/-1/0-0/0.0.0.0/0").ID)
			return ""
		}, "AuthorizeSecurityGroupEgress"},
		{"a listener is deleted", func(w *world) string {
			w.account.Drop(w.ours("listener/apiserver/6443").ID)
			return ""
		}, "CreateListener"},
		{"DNS hostnames are off", func(w *world) string {
			f := w.ours("vpc/main")
			v := f.Object.(awsnet.VPC)
			v.DNSHostnames = false
			f.Object = v
			w.account.Set(f)
			return ""
		}, "ModifyVpcAttribute"},
		{"the role tag of a subnet is gone", func(w *world) string {
			f := w.ours("subnet/prod-subnet-public-us-east-1a")
			delete(f.Tags, "kubernetes.io/role/elb")
			stored := w.account.Get(f.ID)
			stored.Tags = f.Tags
			w.account.Set(stored)
			return ""
		}, "CreateTags"},
		{"the default route of the public table leads to a foreign gateway", func(w *world) string {
			f := w.ours("route/public/0.0.0.0/0")
			r := w.account.Get(f.ID).Object.(awsnet.Route)
			r.Via = other
			f.Object = r
			w.account.Set(f)
			return ""
		}, "ReplaceRoute"},
		{"a foreign route of a node", func(w *world) string {
			return w.account.Put(awsnet.Route{Table: awsnet.Foreign(w.ours("route-table/public").ID), To: netip.MustParsePrefix("100.64.3.0/24"), Via: awsnet.Foreign("eni-f0000001")}, nil)
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, 7)
			want := w.want(specs["three zones"])
			w.apply(want)
			kept := test.change(w)
			before := w.account.Get(kept)
			a := w.account.Read()
			p := awsnet.Diff(w.owner, want, a)
			var calls []string
			for _, s := range p.Steps {
				for _, c := range s.Calls {
					calls = append(calls, c.Action)
				}
			}
			if got := strings.Join(calls, " "); got != test.calls {
				t.Errorf("the repair is %q, want %q\n%s", got, test.calls, summaries(p))
			}
			w.apply(want)
			w.exact(want)
			after := w.account.Get(kept)
			after.Tags, before.Tags = nil, nil
			if kept != "" && (after.ID != before.ID || after.Object != before.Object) {
				t.Errorf("%+v became %+v", before, after)
			}
			p = awsnet.Diff(w.owner, want, w.account.Read())
			if listed := slices.ContainsFunc(p.Foreign, func(f awsnet.Found) bool { return f.ID == kept }); kept != "" && !listed {
				t.Errorf("%s is not listed: %v", kept, p.Foreign)
			}
		})
	}
}

func TestNothingForeignIsDeleted(t *testing.T) {
	w := newWorld(t, 3)
	want := w.want(specs["three zones"])
	w.apply(want)
	vpc := awsnet.Foreign(w.ours("vpc/main").ID)
	for name, tags := range map[string]map[string]string{
		"no tags":                  nil,
		"the tag of another":       {"sigs.k8s.io/cluster-api-provider-aws/cluster/other": "owned", awsnet.UIDTag: "uid-2", awsnet.PartTag: "route-table/x"},
		"our name and another UID": {prodTag: "owned", awsnet.UIDTag: "uid-2", awsnet.PartTag: "route-table/public"},
		"our name and no UID":      {prodTag: "owned", awsnet.PartTag: "route-table/public"},
		"shared":                   {prodTag: "shared", awsnet.UIDTag: "uid-1", awsnet.PartTag: "route-table/public"},
		"no part":                  {prodTag: "owned", awsnet.UIDTag: "uid-1"},
		"a part of another kind":   {prodTag: "owned", awsnet.UIDTag: "uid-1", awsnet.PartTag: "subnet/public"},
	} {
		id := w.account.Put(awsnet.RouteTable{VPC: vpc}, tags)
		w.apply(want)
		p := w.destroy(false)
		if w.account.Get(id).ID == "" {
			t.Errorf("%s: deleted", name)
		}
		if len(p.Blocked) != 1 || !strings.Contains(p.Blocked[0].By, vpc.ID+" is held by route table "+id) {
			t.Errorf("%s: %v", name, p.Blocked)
		}
		w.account.Drop(id)
		w.destroy(false)
		w.empty()
		w.apply(want)
		vpc = awsnet.Foreign(w.ours("vpc/main").ID)
	}
}

// TestBlockersAreNamed shows that objects in use stay, that the others are deleted, and
// that a sweep also deletes what the cloud controllers left.
func TestBlockersAreNamed(t *testing.T) {
	w := newWorld(t, 5)
	want := w.want(specs["three zones"])
	w.apply(want)
	vpc, subnet := awsnet.Foreign(w.ours("vpc/main").ID), w.ours("subnet/prod-subnet-public-us-east-1a").ID
	service := map[string]string{"kubernetes.io/cluster/prod": "owned", "kubernetes.io/service-name": "default/web"}
	group := w.account.Put(awsnet.SecurityGroup{VPC: vpc, Title: "k8s-web"}, service)
	node := w.ours("security-group/node").ID
	w.account.Put(awsnet.Rule{Owner: awsnet.Foreign(node), Protocol: "tcp", From: 30080, To: 30080, Group: awsnet.Foreign(group)}, nil)
	balancer := w.account.Put(awsnet.Balancer{Title: "foo", Scheme: awsnet.InternetFacing, Subnets: awsnet.RefsTo(awsnet.Foreign(subnet)), Groups: awsnet.RefsTo(awsnet.Foreign(group))}, service)
	_, arn, _ := strings.Cut(balancer, ":loadbalancer/")
	w.account.Holders = []awsnet.Holder{{ID: "eni-2", VPC: vpc.ID, Subnet: subnet, Description: "ELB " + arn, Tags: service, Public: true}}

	p := w.destroy(false)
	var by []string
	for _, b := range p.Blocked {
		by = append(by, b.By)
	}
	text := strings.Join(by, "\n")
	for _, part := range []string{
		subnet + " is held by load balancer " + balancer + ", made for service default/web",
		"is held by eni-2 of load balancer x-", "made for service default/web",
		vpc.ID + " is held by security group " + group + ", made for service default/web",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in\n%s", part, text)
		}
	}
	if n := len(w.account.IDs(awsnet.KindSubnet)); n != 1 {
		t.Errorf("%d subnets are left", n)
	}
	if n := len(w.account.IDs(awsnet.KindNATGateway)) + len(w.account.IDs(awsnet.KindAddress)); n != 0 {
		t.Errorf("%d gateways and addresses are left", n)
	}
	h := awsnet.Sort(w.owner, nil, w.account.Read())
	if l := awsnet.Leftovers(h); len(l) != 2 {
		t.Errorf("leftovers: %v", l)
	}

	w.account.Holders = nil // AWS removes the interfaces with the balancer
	w.destroy(true)
	w.empty()
}

func TestRuleOfAForeignGroupBlocksOurs(t *testing.T) {
	w := newWorld(t, 6)
	want := w.want(specs["three zones"])
	w.apply(want)
	group := w.ours("security-group/node").ID
	rule := w.account.Put(awsnet.Rule{Owner: awsnet.Foreign("sg-f0000001"), Protocol: "tcp", From: 1, To: 2, Group: awsnet.Foreign(group)}, nil)
	p := w.destroy(false)
	if !slices.ContainsFunc(p.Blocked, func(b awsnet.Blocker) bool { return b.By == group+" is held by rule "+rule }) {
		t.Error(p.Blocked)
	}
	w.account.Drop(rule)
	w.destroy(false)
	w.empty()
}

func TestAddressesAreKept(t *testing.T) {
	w := newWorld(t, 8)
	spec := specs["three zones"] + "\nkeepAddresses: true"
	want := w.want(spec)
	w.apply(want)
	before := w.account.IDs(awsnet.KindAddress)
	w.destroy(false)
	if now := w.account.IDs(awsnet.KindAddress); !slices.Equal(now, before) {
		t.Fatalf("%v became %v", before, now)
	}
	w.owner.UID = "uid-2" // the cluster is created again
	want = w.want(spec)
	w.apply(want)
	w.exact(want)
	if now := w.account.IDs(awsnet.KindAddress); !slices.Equal(now, before) {
		t.Errorf("%v became %v", before, now)
	}
}

// TestAddressesAreKeptNoLonger turns keepAddresses off: a deletion then releases the addresses.
func TestAddressesAreKeptNoLonger(t *testing.T) {
	w := newWorld(t, 8)
	w.apply(w.want(specs["three zones"] + "\nkeepAddresses: true"))
	if kept := awsnet.SeeEnd(w.owner, w.account.Read(), false).Kept(); len(kept) != 3 {
		t.Errorf("%d addresses are kept", len(kept))
	}
	want := w.want(specs["three zones"])
	w.apply(want)
	w.exact(want)
	if kept := awsnet.SeeEnd(w.owner, w.account.Read(), false).Kept(); len(kept) != 0 {
		t.Errorf("%v", kept)
	}
	w.destroy(false)
	w.empty()
}

func TestForeignVPCGetsOnlyTagsAndGroups(t *testing.T) {
	w := newWorld(t, 9)
	vpc := w.account.Put(awsnet.VPC{IPv4: netip.MustParsePrefix("10.9.0.0/16")}, nil)
	igw := w.account.Put(awsnet.InternetGateway{VPC: awsnet.Foreign(vpc)}, nil)
	a := w.account.Put(awsnet.Subnet{VPC: awsnet.Foreign(vpc), Zone: "us-east-1a", IPv4: netip.MustParsePrefix("10.9.0.0/24")}, map[string]string{"Name": "mine"})
	spec := "network: {vpc: {id: " + vpc + "}, subnets: [{id: " + a + ", availabilityZone: us-east-1a, isPublic: true}]}\nbastion: {enabled: true}"
	want := w.want(spec)
	w.apply(want)
	w.exact(want)
	tags := w.account.Get(a).Tags
	if tags["kubernetes.io/cluster/prod"] != "shared" || tags["kubernetes.io/role/elb"] != "1" || tags["Name"] != "mine" {
		t.Error(tags)
	}
	if n := len(w.account.IDs(awsnet.KindRouteTable)) + len(w.account.IDs(awsnet.KindNATGateway)) + len(w.account.IDs(awsnet.KindEndpoint)); n != 0 {
		t.Errorf("%d objects were made in a VPC that is not ours", n)
	}
	w.destroy(false)
	for _, f := range w.account.Read().Found {
		if f.ID != vpc && f.ID != igw && f.ID != a {
			t.Errorf("%s is left: %+v", f.ID, f)
		}
	}
}

func TestWhatCannotBeChangedIsAProblem(t *testing.T) {
	w := newWorld(t, 10)
	w.apply(w.want(specs["three zones"]))
	calls := w.calls
	for spec, part := range map[string]string{
		"network: {vpc: {cidrBlock: 10.1.0.0/24}}":                                               "restore network.vpc.cidrBlock",
		"network: {vpc: {cidrBlock: 10.0.0.0/24}}\ncontrolPlaneLoadBalancer: {scheme: internal}": "the endpoint of a cluster that runs must not move",
		"network: {vpc: {cidrBlock: 10.0.0.0/24, subnetSchema: PreferPrivate}}":                  "list the subnets with the blocks that they have",
	} {
		p := awsnet.Diff(w.owner, w.want(spec), w.account.Read())
		if !slices.ContainsFunc(p.Problems, func(p awsnet.Problem) bool { return strings.Contains(p.Text, part) }) {
			t.Errorf("%s: %v", spec, p.Problems)
		}
	}
	if w.calls != calls {
		t.Error("calls were made")
	}
	if p := awsnet.Diff(w.owner, nil, w.account.Read()); len(p.Steps) > 0 || len(p.Problems) != 1 {
		t.Errorf("an empty network is applied: %v", p)
	}
}

func TestForeignObjectsInOurPlaceAreProblems(t *testing.T) {
	w := newWorld(t, 11)
	want := w.want(specs["three zones"])
	w.apply(map[awsnet.Key]awsnet.Wanted{awsnet.VPC{}.Key(): want[awsnet.VPC{}.Key()]})
	vpc := awsnet.Foreign(w.ours("vpc/main").ID)
	w.account.Put(awsnet.Subnet{VPC: vpc, IPv4: netip.MustParsePrefix("10.0.0.16/28")}, nil)
	// An object with the same name and blocks in another VPC is in the way of none of
	// ours.
	w.account.Put(awsnet.Subnet{VPC: awsnet.Foreign("vpc-f0000001"), IPv4: netip.MustParsePrefix("10.0.0.128/27")}, map[string]string{prodTag: "owned", awsnet.UIDTag: "uid-2"})
	w.account.Put(awsnet.SecurityGroup{VPC: vpc, Title: "prod-node"}, nil)
	w.account.Put(awsnet.InternetGateway{VPC: vpc}, nil)
	p := awsnet.Diff(w.owner, want, w.account.Read())
	var text []string
	for _, problem := range p.Problems {
		text = append(text, problem.String())
	}
	if len(text) != 3 {
		t.Errorf("%d problems: %v", len(text), text)
	}
	for _, part := range []string{"overlaps 10.0.0.0/27", "is called prod-node, too", "is attached to this VPC"} {
		if !strings.Contains(strings.Join(text, "\n"), part) {
			t.Errorf("%q is missing in %v", part, text)
		}
	}
	for _, s := range p.Steps {
		for _, n := range s.Needs {
			if !slices.ContainsFunc(p.Steps, func(o awsnet.Step) bool { return o.StepID == n }) {
				t.Errorf("%s needs %v, which is not in the plan", s.Summary, n)
			}
		}
	}
}
