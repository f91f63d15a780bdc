package awscluster

import (
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// TestNetworkStatusNamesWhatMachinesNeed: the IDs of security groups, and the load balancer. What
// another program wrote there is replaced.
func TestNetworkStatusNamesWhatMachinesNeed(t *testing.T) {
	inLab(t, func(l *lab) {
		l.cluster("prod", `{}`)
		l.awsCluster("prod", `{"region": "us-east-1", "network": {"vpc": {"cidrBlock": "10.0.0.0/24"}, "securityGroupOverrides": {"lb": "sg-0123"}}}`)
		l.accounts[home].model.Set(awsnet.Found{ID: "sg-0123", Object: awsnet.SecurityGroup{Title: "foreign"}})
		l.Begin()
		l.Pass(2 * time.Minute)
		check := func() {
			t.Helper()
			o := l.ready("prod")
			s := readNetworkStatus(o.status.Network)
			found := make(map[string]awsnet.Found)
			for _, f := range l.accounts[home].model.Read().Found {
				found[f.ID] = f
			}
			for _, role := range []awsnet.Role{awsnet.RoleControlPlane, awsnet.RoleNode, awsnet.RoleAPIServerLB} {
				g := s.Groups[role]
				if is, ok := found[g.ID].Object.(awsnet.SecurityGroup); !ok || is.Title != g.Name {
					t.Errorf("the group of %s is %+v", role, g)
				}
			}
			if g := s.Groups[awsnet.RoleLB]; g != (groupStatus{ID: "sg-0123"}) || len(s.Groups) != 4 {
				t.Errorf("the groups are %+v", s.Groups)
			}
			b := s.Primary
			if b == nil || b.Host != o.rest.Endpoint.Host || b.Type != "nlb" || b.Scheme != awsnet.InternetFacing || len(b.Subnets) != 3 || found[b.Subnets[0]].ID == "" || found[b.ID].ID == "" {
				t.Errorf("the load balancer is %+v", b)
			}
			if s.Secondary != nil || len(s.NATs) != 3 {
				t.Errorf("the second load balancer is %+v, and the addresses of NAT gateways are %v", s.Secondary, s.NATs)
			}
		}
		check()
		l.edit(awsPath("prod"), func(o map[string]any) {
			o["status"].(map[string]any)["networkStatus"] = map[string]any{
				"securityGroups": map[string]any{"node": map[string]any{"id": "sg-other", "name": "x"}, "controlplane": 7}, "secondaryAPIServerELB": map[string]any{"arn": "x"},
			}
		})
		l.Pass(time.Minute)
		check()
	})
}
