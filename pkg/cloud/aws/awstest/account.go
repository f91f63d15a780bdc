package awstest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// account holds the objects of an account in a region.
type account struct {
	s *Server
	place
	seq     int
	pending []event
	born    time.Time // if set, the creation time of new objects, instead of now
	once_   map[string]remembered

	zones     []zone
	vpcs      shelf[*vpc]
	subnets   shelf[*subnet]
	tables    shelf[*table]
	instances shelf[*instance]
	enis      shelf[*eni]
	groups    shelf[*group]
	igws      shelf[*igw]
	eips      shelf[*eip]
	nats      shelf[*nat]
	egresses  shelf[*egress]
	endpoints shelf[*endpoint]
	elbs      shelf[*balancer]
	targets   shelf[*targetGroup]
	listeners shelf[*listener]
	failing   map[string]bool // targets that fail their health checks
	certs     map[string]bool
	public    netip.Addr // the last public address that was assigned
}

// newAccount returns a new account, which has a VPC with a public subnet in each zone.
func newAccount(s *Server, at place) *account {
	a := &account{s: s, place: at, once_: make(map[string]remembered), failing: make(map[string]bool), certs: make(map[string]bool), public: netip.MustParseAddr("3.64.0.0")}
	a.zones = zonesOf(at.region)
	a.born = s.now().AddDate(-1, 0, 0) // its default objects are not new
	a.addDefaultVPC()
	a.born = time.Time{}
	return a
}

// meta has the fields of every object.
type meta struct {
	id   string
	kind string // the resource type in tag specifications
	seq  int
	made time.Time
	tags []tag
}

func (m *meta) base() *meta { return m }

// object is an object on a shelf.
type object interface{ base() *meta }

// newMeta returns the meta of a new object.
func (a *account) newMeta(kind, prefix string) meta {
	made := a.s.now()
	if !a.born.IsZero() {
		made = a.born
	}
	id := prefix + "-" + a.hex()
	return meta{id: id, kind: kind, seq: a.seq, made: made}
}

// hex returns 17 hexadecimal digits, unique on the server.
func (a *account) hex() string {
	a.seq++
	n := uint64(a.seq)
	for _, c := range a.place.account + a.region {
		n = n*1099511628211 + uint64(c)
	}
	// The mix of splitmix64: equal runs have equal IDs, and successive IDs look different.
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return fmt.Sprintf("0%016x", n^n>>31)
}

// shelf holds objects of a kind, in the order in which they were made.
type shelf[T object] struct {
	byID  map[string]T
	order []T
}

func (s *shelf[T]) add(o T) T {
	if s.byID == nil {
		s.byID = make(map[string]T)
	}
	s.byID[o.base().id] = o
	s.order = append(s.order, o)
	return o
}

func (s *shelf[T]) remove(o T) {
	delete(s.byID, o.base().id)
	i, found := slices.BinarySearchFunc(s.order, o.base().seq, func(o T, seq int) int { return cmp.Compare(o.base().seq, seq) })
	if found {
		s.order = slices.Delete(s.order, i, i+1)
	}
}

// find returns the objects for which a condition holds.
func (s *shelf[T]) find(is func(T) bool) []T {
	var found []T
	for _, o := range s.order {
		if is(o) {
			found = append(found, o)
		}
	}
	return found
}

// event is a background operation of the cloud that is due later.
type event struct {
	at time.Time
	do func()
}

// later schedules do. It runs before the first call that is served after a while.
func (a *account) later(d time.Duration, do func()) {
	e := event{a.s.now().Add(d), do}
	i, _ := slices.BinarySearchFunc(a.pending, e.at, func(e event, at time.Time) int {
		if e.at.After(at) {
			return 1
		}
		return -1
	})
	a.pending = slices.Insert(a.pending, i, e)
}

// settle runs the events that are due.
func (a *account) settle(now time.Time) {
	for len(a.pending) > 0 && !a.pending[0].at.After(now) {
		e := a.pending[0]
		a.pending = a.pending[1:]
		e.do()
	}
}

// seen reports whether a describe shows an object that was made at that time.
func (r *request) seen(made time.Time) bool { return r.now.Sub(made) >= r.set.Lag }

// named returns the object that a write names.
func named[T object](r *request, s *shelf[T], id string, missing func(id string) *Error) (T, error) {
	o, ok := s.byID[id]
	if !ok || r.set.LagWrites && !r.seen(o.base().made) {
		var none T
		return none, missing(id)
	}
	return o, nil
}

// wanted returns the object that a required parameter names.
func wanted[T object](r *request, parameter string, s *shelf[T], missing func(id string) *Error) (T, error) {
	id, err := r.form.want(parameter)
	if err != nil {
		var none T
		return none, err
	}
	return named(r, s, id, missing)
}

// missing returns the error for an ID that does not exist.
func missing(code, what string) func(id string) *Error {
	return func(id string) *Error { return bad(code, "The %s ID '%s' does not exist", what, id) }
}

var (
	noVPC       = missing("InvalidVpcID.NotFound", "vpc")
	noSubnet    = missing("InvalidSubnetID.NotFound", "subnet")
	noTable     = missing("InvalidRouteTableID.NotFound", "routeTable")
	noInstance  = missing("InvalidInstanceID.NotFound", "instance")
	noInterface = missing("InvalidNetworkInterfaceID.NotFound", "networkInterface")
	noIGW       = missing("InvalidInternetGatewayID.NotFound", "internetGateway")
	noGateway   = missing("InvalidGatewayID.NotFound", "gateway")
	noGroup     = func(id string) *Error {
		return bad("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
	}
)
