package awscluster

import (
	"encoding/json"
	"slices"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// networkStatus is the objects of a network that controllers of machines need.
type networkStatus struct {
	Groups    map[awsnet.Role]groupStatus `json:"securityGroups,omitempty"`
	Primary   *balancerStatus             `json:"apiServerElb,omitempty"`
	Secondary *balancerStatus             `json:"secondaryAPIServerELB,omitempty"`
	// NATs are the public addresses of the NAT gateways.
	NATs []string `json:"natGatewaysIPs,omitempty"`
}

type groupStatus struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type balancerStatus struct {
	ID      string        `json:"arn"`
	Name    string        `json:"name"`
	Host    string        `json:"dnsName"`
	Scheme  awsnet.Scheme `json:"scheme"`
	Type    string        `json:"loadBalancerType"`
	Subnets []string      `json:"subnetIds,omitempty"`
	Groups  []string      `json:"securityGroupIds,omitempty"`
}

// readNetworkStatus reads what a status has. What cannot be read is written again.
func readNetworkStatus(text json.RawMessage) (s networkStatus) {
	if len(text) == 0 || json.Unmarshal(text, &s) != nil {
		return networkStatus{}
	}
	return s
}

// networkStatusOf returns the status of a network that is as wanted.
func networkStatusOf(v awsnet.View) (s networkStatus) {
	s.Groups = make(map[awsnet.Role]groupStatus)
	for role, id := range v.Network.Overrides {
		s.Groups[role] = groupStatus{ID: id}
	}
	for key, f := range v.Holding.Ours {
		switch o := f.Object.(type) {
		case awsnet.SecurityGroup:
			s.Groups[awsnet.Role(key.Name)] = groupStatus{f.ID, o.Title}
		case awsnet.NATGateway:
			if f.Given.Address.IsValid() {
				s.NATs = append(s.NATs, f.Given.Address.String())
			}
		case awsnet.Balancer:
			b := &balancerStatus{f.ID, o.Title, f.Given.Host, o.Scheme, "nlb", ids(v, o.Subnets), ids(v, o.Groups)}
			if key.Name == awsnet.PrimaryBalancer {
				s.Primary = b
			} else {
				s.Secondary = b
			}
		}
	}
	slices.Sort(s.NATs)
	return s
}

// ids returns the IDs of objects, sorted.
func ids(v awsnet.View, of awsnet.Refs) (all []string) {
	for _, r := range of.All() {
		if r.ID == "" {
			r.ID = v.Holding.Ours[r.Key].ID
		}
		all = append(all, r.ID)
	}
	slices.Sort(all)
	return all
}
