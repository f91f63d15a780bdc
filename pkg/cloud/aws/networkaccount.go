package aws

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/cloud"
)

// account returns the Account that the parts of a reading make.
func (f facts) account() (awsnet.Account, error) {
	var a awsnet.Account
	for p, value := range f {
		switch list := value.(type) {
		case vpcList:
			for _, v := range list {
				a.Found = append(a.Found, f.vpc(v)...)
			}
		case foundList:
			if p.name == partListeners {
				list = slices.Clone(list)
				tags, _ := f[part{name: partListenerTags}].(map[string]map[string]string)
				for i := range list {
					list[i].Tags = tags[list[i].ID]
				}
			}
			a.Found = append(a.Found, list...)
		case groupList:
			a.Found = append(a.Found, list.found...)
		case tableList:
			a.Found = append(a.Found, list.found...)
		case natList:
			a.Found = append(a.Found, list.found...)
		case balancerList:
			if p.name == partBalancers {
				a.Found = append(a.Found, f.balancers(list)...)
			}
		case targetGroupList:
			if p.name == partTargetGroups {
				a.Found = append(a.Found, f.targetGroups(list)...)
			}
		case holderList:
			a.Holders = slices.Clone(list)
		}
	}
	a.Found = unique(a.Found)
	f.uses(a.Found)
	a.Holders = holders(a)
	return a, f.complete(a)
}

// unique sorts objects by ID and removes duplicates, because two parts may contain the
// same gateway.
func unique(all []awsnet.Found) []awsnet.Found {
	slices.SortStableFunc(all, func(a, b awsnet.Found) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(all, func(a, b awsnet.Found) bool { return a.ID == b.ID })
}

// vpc returns a VPC and its blocks.
func (f facts) vpc(v vpcFacts) []awsnet.Found {
	hostnames, _ := f[part{partHostnames, v.id}].(bool)
	support, _ := f[part{partSupport, v.id}].(bool)
	all := []awsnet.Found{{ID: v.id, Object: awsnet.VPC{IPv4: v.v4, DNSSupport: support, DNSHostnames: hostnames}, Tags: v.tags, State: v.state}}
	for _, b := range v.blocks {
		one := awsnet.Found{ID: b.id, State: b.state, Why: b.why}
		o := awsnet.Block{VPC: awsnet.Foreign(v.id), Prefix: b.prefix, Pool: b.pool}
		if b.pool == awsnet.AmazonPool {
			o.Prefix, one.Given.Block = netip.Prefix{}, b.prefix
		}
		one.Object = o
		all = append(all, one)
	}
	return all
}

func (f facts) balancers(list balancerList) (all []awsnet.Found) {
	tags, _ := f[part{name: partBalancerTags}].(map[string]map[string]string)
	for _, b := range list {
		b.object.CrossZone, _ = f[part{partBalancerAttributes, b.id}].(bool)
		all = append(all, awsnet.Found{ID: b.id, Object: b.object, Tags: tags[b.id], State: b.state, Why: b.why, Given: awsnet.Given{Host: b.host}})
	}
	return all
}

func (f facts) targetGroups(list targetGroupList) (all []awsnet.Found) {
	tags, _ := f[part{name: partBalancerTags}].(map[string]map[string]string)
	for _, g := range list {
		is, _ := f[part{partTargetGroupAttribute, g.id}].(groupAttributes)
		g.object.PreserveIP, g.object.EndUnhealthy = is.preserveIP, is.endUnhealthy
		all = append(all, awsnet.Found{ID: g.id, Object: g.object, Tags: tags[g.id]})
	}
	return all
}

// uses sets which NAT gateway uses each address.
func (f facts) uses(all []awsnet.Found) {
	by := make(map[string]string)
	for _, x := range all {
		if n, ok := x.Object.(awsnet.NATGateway); ok && n.Address.ID != "" && x.State != awsnet.Failed {
			by[n.Address.ID] = x.ID
		}
	}
	for i, x := range all {
		if _, ok := x.Object.(awsnet.Address); ok && by[x.ID] != "" {
			all[i].Given.UsedBy = by[x.ID]
		}
	}
}

// holders returns the interfaces with the tags of the balancer or the instance that each
// belongs to.
func holders(a awsnet.Account) []awsnet.Holder {
	tags := make(map[string]map[string]string)
	for _, f := range a.Found {
		if _, name, ok := strings.Cut(f.ID, ":loadbalancer/"); ok {
			tags["ELB "+name] = f.Tags
		} else if _, ok := f.Object.(awsnet.Bastion); ok {
			tags[f.ID] = f.Tags
		}
	}
	for i, h := range a.Holders {
		for _, of := range []string{h.Description, h.Instance} {
			if t := tags[of]; len(t) > 0 {
				a.Holders[i].Tags = t
			}
		}
	}
	return a.Holders
}

// complete returns an error if the answers of a reading contradict one another: an
// object was deleted between two of them.
func (f facts) complete(a awsnet.Account) error {
	there := make(map[string]bool)
	for _, x := range a.Found {
		there[x.ID] = true
	}
	for _, x := range a.Found {
		var in awsnet.Ref
		switch o := x.Object.(type) {
		case awsnet.Subnet:
			in = o.VPC
		case awsnet.RouteTable:
			in = o.VPC
		case awsnet.SecurityGroup:
			in = o.VPC
		case awsnet.Association:
			in = o.Subnet
		case awsnet.Rule:
			in = o.Owner
		}
		if in.ID != "" && !there[in.ID] {
			return &cloud.Error{Kind: cloud.Unavailable, Action: "Describe", Text: x.ID + " is in " + in.ID + ", which another answer does not have; reading again"}
		}
	}
	return nil
}
