package awsnettest

import (
	"fmt"
	"slices"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// Delete deletes an object as a person does, if AWS permits it. It detaches an internet
// gateway first. Deletions that take AWS some time end at once.
func (a *Account) Delete(id string) error {
	if g, is := a.objects[id].Object.(awsnet.InternetGateway); is && g.VPC.ID != "" {
		if err := a.delete(awsnet.Call{Action: "DetachInternetGateway"}, id); err != nil {
			return err
		}
	}
	err := a.delete(awsnet.Call{Action: "Delete"}, id)
	a.Tick()
	return err
}

// delete makes one call of a deletion.
func (a *Account) delete(c awsnet.Call, id string) error {
	f, there := a.objects[id]
	if !there {
		return fmt.Errorf("%s: %q does not exist", c, id)
	}
	if f.State == awsnet.Deleting {
		return fmt.Errorf("%s: %s is being deleted", c, id)
	}
	if by := a.heldBy(c, f); by != "" {
		return fmt.Errorf("%s: DependencyViolation: %s is held by %s", c, id, by)
	}
	switch o := f.Object.(type) {
	case awsnet.InternetGateway:
		if c.Action == "DetachInternetGateway" {
			f.Object = awsnet.InternetGateway{}
			a.objects[id] = f
			return nil
		}
		if o.VPC.ID != "" {
			return fmt.Errorf("%s: %s is attached", c, id)
		}
	case awsnet.NATGateway, awsnet.Bastion:
		f.State = awsnet.Deleting
		a.objects[id] = f
		return nil
	case awsnet.Subnet:
		if c.Action == "DeleteTags" {
			f.Tags = nil
			a.objects[id] = f
			return nil
		}
	}
	if f.Fixed {
		return fmt.Errorf("%s: %s cannot be deleted", c, id)
	}
	a.remove(id)
	return nil
}

// heldBy returns the object because of which AWS refuses a deletion, or "".
func (a *Account) heldBy(c awsnet.Call, f awsnet.Found) string {
	for _, other := range a.objects {
		if other.ID != f.ID && a.holds(c, other, f) {
			return other.ID
		}
	}
	for _, h := range a.Holders {
		switch f.Object.(type) {
		case awsnet.Subnet:
			if h.Subnet == f.ID && c.Action != "DeleteTags" {
				return h.ID
			}
		case awsnet.SecurityGroup:
			if slices.Contains(h.Groups, f.ID) {
				return h.ID
			}
		case awsnet.InternetGateway:
			if h.Public && h.VPC == f.Object.(awsnet.InternetGateway).VPC.ID && h.VPC != "" {
				return h.ID
			}
		}
	}
	return ""
}

func (a *Account) holds(c awsnet.Call, other, f awsnet.Found) bool {
	names := slices.ContainsFunc(awsnet.Named(other.Object), func(r awsnet.Ref) bool { return r.ID == f.ID })
	switch f.Object.(type) {
	case awsnet.VPC:
		_, block := other.Object.(awsnet.Block)
		_, group := other.Object.(awsnet.TargetGroup)
		return names && !other.Fixed && !block && !group
	case awsnet.InternetGateway:
		vpc := f.Object.(awsnet.InternetGateway).VPC.ID
		if c.Action != "DetachInternetGateway" || vpc == "" {
			return false
		}
		switch o := other.Object.(type) {
		case awsnet.NATGateway:
			return a.vpcOf(o.Subnet) == vpc
		case awsnet.Bastion:
			return a.vpcOf(o.Subnet) == vpc
		case awsnet.Balancer:
			return o.Scheme == awsnet.InternetFacing && slices.ContainsFunc(o.Subnets.All(), func(r awsnet.Ref) bool { return a.vpcOf(r) == vpc })
		}
		return false
	case awsnet.Subnet:
		switch other.Object.(type) {
		case awsnet.NATGateway, awsnet.Balancer, awsnet.Bastion:
			return names && c.Action != "DeleteTags"
		}
		return false
	case awsnet.RouteTable:
		_, is := other.Object.(awsnet.Association)
		return is && names
	case awsnet.SecurityGroup:
		switch o := other.Object.(type) {
		case awsnet.Rule:
			return o.Group.ID == f.ID && o.Owner.ID != f.ID
		case awsnet.Balancer, awsnet.Bastion:
			return names
		}
		return false
	case awsnet.Address:
		return f.Given.UsedBy == other.ID
	case awsnet.TargetGroup:
		_, is := other.Object.(awsnet.Listener)
		return is && names
	}
	return false
}

func (a *Account) vpcOf(subnet awsnet.Ref) string {
	if n, is := a.objects[subnet.ID].Object.(awsnet.Subnet); is {
		return n.VPC.ID
	}
	return ""
}
