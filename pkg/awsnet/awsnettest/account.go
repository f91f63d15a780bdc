package awsnettest

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// Account is an AWS account. It is not safe for concurrent use.
type Account struct {
	// Calls counts the calls that changed something, by action.
	Calls map[string]int
	// Holders are the network interfaces of other programs.
	Holders []awsnet.Holder

	last    int
	objects map[string]awsnet.Found
	// tokens are the IDs of created objects, by ClientToken.
	tokens map[string]string
	// hidden are the IDs that the next Read omits.
	hidden map[string]bool
	fresh  []string
}

// New returns an empty account.
func New() *Account {
	return &Account{Calls: make(map[string]int), objects: make(map[string]awsnet.Found), tokens: make(map[string]string), hidden: make(map[string]bool)}
}

// Read returns the contents of the account, and undoes Hide.
func (a *Account) Read() awsnet.Account {
	out := awsnet.Account{Holders: slices.Clone(a.Holders)}
	for _, id := range slices.Sorted(maps.Keys(a.objects)) {
		f := a.objects[id]
		if a.hidden[id] {
			continue
		}
		f.Tags = maps.Clone(f.Tags)
		if r, is := f.Object.(awsnet.Route); is && !a.has(r.Via.ID) {
			r.Blackhole = true
			f.Object = r
		}
		out.Found = append(out.Found, f)
		if e, is := f.Object.(awsnet.Endpoint); is {
			for _, table := range e.Tables.All() { // a route to the addresses of the service
				out.Found = append(out.Found, awsnet.Found{ID: table.ID + "/" + id, Object: awsnet.Route{Table: table, Via: awsnet.Foreign(id)}, Fixed: true})
			}
		}
	}
	clear(a.hidden)
	return out
}

// Hide omits the last n created objects from the next Read, as AWS may do for some
// seconds.
func (a *Account) Hide(n int) {
	for _, id := range a.fresh[max(0, len(a.fresh)-n):] {
		a.hidden[id] = true
	}
}

// Tick finishes everything that AWS does in the background.
func (a *Account) Tick() {
	for id, f := range a.objects {
		switch f.State {
		case awsnet.Pending:
			f.State = awsnet.Usable
			a.objects[id] = f
		case awsnet.Deleting:
			a.remove(id)
		}
	}
}

// Put adds an object that another program made, and returns its ID.
func (a *Account) Put(o awsnet.Object, tags map[string]string) string {
	return a.store(o, tags, awsnet.Usable, awsnet.Given{})
}

// Get returns an object.
func (a *Account) Get(id string) awsnet.Found { return a.objects[id] }

// Set replaces an object, as a person who changes it does.
func (a *Account) Set(f awsnet.Found) { a.objects[f.ID] = f }

// Drop removes an object and its parts, as a person who deletes it does.
func (a *Account) Drop(id string) { a.remove(id) }

// IDs returns the IDs of all objects of a kind.
func (a *Account) IDs(kind awsnet.Kind) (ids []string) {
	for id, f := range a.objects {
		if f.Object.Key().Kind == kind {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// prefixes are the prefixes of IDs.
var prefixes = map[awsnet.Kind]string{
	awsnet.KindVPC: "vpc", awsnet.KindBlock: "vpc-cidr-assoc", awsnet.KindInternetGateway: "igw", awsnet.KindEgressGateway: "eigw",
	awsnet.KindCarrierGateway: "cagw", awsnet.KindSubnet: "subnet", awsnet.KindAddress: "eipalloc", awsnet.KindNATGateway: "nat",
	awsnet.KindRouteTable: "rtb", awsnet.KindAssociation: "rtbassoc", awsnet.KindEndpoint: "vpce", awsnet.KindSecurityGroup: "sg",
	awsnet.KindRule: "sgr", awsnet.KindBastion: "i", awsnet.KindBalancer: "arn:loadbalancer/net/x", awsnet.KindTargetGroup: "arn:targetgroup/x",
	awsnet.KindListener: "arn:listener/x",
}

func (a *Account) store(o awsnet.Object, tags map[string]string, state awsnet.State, given awsnet.Given) string {
	a.last++
	id := fmt.Sprintf("%s-%08x", prefixes[o.Key().Kind], a.last)
	if r, is := o.(awsnet.Route); is {
		id = r.Table.ID + "/" + r.To.String()
	}
	a.objects[id] = awsnet.Found{ID: id, Object: nameless(o), Tags: maps.Clone(tags), State: state, Given: given}
	a.fresh = append(a.fresh, id)
	return id
}

// nameless returns an object as AWS returns it, with its name only in its tags.
func nameless(o awsnet.Object) awsnet.Object {
	switch o := o.(type) {
	case awsnet.Subnet:
		o.Name = ""
		return o
	case awsnet.Address:
		o.Name = ""
		return o
	case awsnet.NATGateway:
		o.Name = ""
		return o
	case awsnet.RouteTable:
		o.Name = ""
		return o
	case awsnet.SecurityGroup:
		o.Role = ""
		return o
	case awsnet.Balancer:
		o.Name = ""
		return o
	case awsnet.TargetGroup:
		o.Name = ""
		return o
	}
	return o
}

func (a *Account) has(id string) bool {
	f, there := a.objects[id]
	return there && f.State != awsnet.Deleting
}

// all returns the objects of a type that match, in the order of their IDs.
func all[T awsnet.Object](a *Account, match func(T) bool) (found []awsnet.Found) {
	for _, f := range a.objects {
		if o, is := f.Object.(T); is && match(o) {
			found = append(found, f)
		}
	}
	slices.SortFunc(found, func(x, y awsnet.Found) int { return cmp.Compare(x.ID, y.ID) })
	return found
}

// remove deletes an object, and its parts.
func (a *Account) remove(id string) {
	delete(a.objects, id)
	for other, f := range a.objects {
		part := false
		switch o := f.Object.(type) {
		case awsnet.Block:
			part = o.VPC.ID == id
		case awsnet.Route:
			part = o.Table.ID == id
		case awsnet.Association:
			part = o.Subnet.ID == id
		case awsnet.Rule:
			part = o.Owner.ID == id
		case awsnet.Listener:
			part = o.Balancer.ID == id
		case awsnet.SecurityGroup:
			part = o.VPC.ID == id && f.Fixed
		case awsnet.RouteTable:
			part = o.VPC.ID == id && f.Fixed
		case awsnet.Address:
			if f.Given.UsedBy == id {
				f.Given.UsedBy = ""
				a.objects[other] = f
			}
		}
		if part {
			a.remove(other)
		}
	}
}

// address returns a public address.
func (a *Account) address() netip.Addr {
	a.last++
	return netip.AddrFrom4([4]byte{198, 51, byte(a.last >> 8), byte(a.last)})
}
