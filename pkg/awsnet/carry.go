package awsnet

import "slices"

// Carried are the kinds that a short reading may leave out: what it reads of route tables
// and listeners shows that they are still there.
var Carried = []Kind{KindInternetGateway, KindEgressGateway, KindCarrierGateway, KindNATGateway, KindEndpoint, KindAddress, KindTargetGroup}

// Carry completes a short reading, which left out the kinds in Carried, with what the last
// full one had of them. It returns false if the short one does not prove that all of it is
// as it was; then a full reading is needed. A short reading notices no change of a target
// group's health check, and no new object of those kinds.
func Carry(full, short Account) (a Account, ok bool) {
	c := carrier{via: make(map[string]bool), groups: make(map[string]bool), tables: make(map[string][]Ref)}
	for _, f := range short.Found {
		switch o := f.Object.(type) {
		case Route:
			if f.Fixed && !o.To.IsValid() { // to the addresses of a service
				c.tables[o.Via.ID] = append(c.tables[o.Via.ID], o.Table)
			} else if !o.Blackhole {
				c.via[o.Via.ID] = true
			}
		case Listener:
			c.groups[o.Group.ID] = true
		case Balancer:
			c.via[f.ID] = true
		}
	}
	a = Account{Found: slices.Clone(short.Found), Holders: short.Holders}
	for _, f := range full.Found {
		if !slices.Contains(Carried, KindOf(f.Object)) {
			continue
		}
		if f.State != Usable || !c.proves(f) {
			return Account{}, false
		}
		a.Found = append(a.Found, f)
	}
	return a, true
}

// carrier is what a short reading shows.
type carrier struct {
	// via are the IDs of what routes lead to, apart from those that lead nowhere, and of
	// balancers.
	via    map[string]bool
	groups map[string]bool  // target groups of listeners
	tables map[string][]Ref // of endpoints
}

// proves reports whether an object is still there, and as it was.
func (c carrier) proves(f Found) bool {
	switch o := f.Object.(type) {
	case Endpoint:
		return len(c.tables[f.ID]) > 0 && RefsTo(c.tables[f.ID]...) == o.Tables
	case Address: // it cannot be released while it is used
		return c.via[f.Given.UsedBy]
	case TargetGroup:
		return c.groups[f.ID]
	}
	return c.via[f.ID]
}
