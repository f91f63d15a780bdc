package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/cloud"
)

const (
	// mostIdle is the maximum number of calls of a reading that finds no change.
	mostIdle = 8
	// mostNetworkReads is the maximum number of concurrent reads of one network. All reads that
	// need the VPC alone are fewer.
	mostNetworkReads = 16
)

// NetworkScope is what a reading of a cluster's network covers. A reading makes no call
// for parts that the spec cannot have.
type NetworkScope struct {
	Owner awsnet.Owner
	// VPC is the ID of a VPC that is not the cluster's own, or "".
	VPC string
	// Balancers, Bastion and Carrier include load balancers with their target groups,
	// the bastion, and carrier gateways. A plan neither finds nor deletes what a scope
	// leaves out, so leave out only what the network never had since it was last read
	// completely.
	Balancers, Bastion, Carrier bool
	// Count is for a reading before a plan whose quotas are checked: it reads the VPCs, internet
	// gateways and addresses of the whole region, and NetworkUsage then needs no calls for them.
	Count bool
	// Holders includes all network interfaces in the VPC, which a deletion needs.
	Holders bool
}

// Network reads a cluster's network. If any part cannot be read, it returns an error. A
// reading after one that found no difference costs at most mostIdle calls. It reads the
// parts that prove that all objects still exist: a route to a deleted gateway is a
// blackhole, a subnet keeps its VPC, a NAT gateway its address, and a listener its
// target group. Of the other parts, such as tags, it reads some each time, in turn.
// Once a part differs, it reads everything.
func (c *Client) Network(ctx context.Context, s NetworkScope) (awsnet.Account, error) {
	if err := checkScope(s); err != nil {
		return awsnet.Account{}, err
	}
	if a, ok, err := c.networkAgain(ctx, s); ok || err != nil {
		return a, err
	}
	r, began := &networkReader{c: c, scope: s, facts: make(facts)}, time.Now()
	c.networks.begin(r)
	defer c.networks.end(r)
	if err := r.readAll(ctx); err != nil {
		return awsnet.Account{}, err
	}
	a, err := r.facts.account()
	if err != nil {
		return awsnet.Account{}, err
	}
	if id, age := c.networks.unseen(s.Owner, r.facts); id != "" {
		return awsnet.Account{}, &cloud.Error{Kind: cloud.Pending, Action: "Describe", Text: fmt.Sprintf("AWS does not show %s yet, which was created %s ago; reading again", id, age.Round(time.Second))}
	}
	if err := c.networks.doubtful(s.Owner, a); err != nil {
		return awsnet.Account{}, err
	}
	if s.Count {
		c.networks.counted(r.count)
	}
	settled := !s.Holders && !slices.ContainsFunc(a.Found, func(f awsnet.Found) bool { return f.State != awsnet.Usable })
	c.networks.remember(r, settled, began)
	return a, nil
}

func checkScope(s NetworkScope) error {
	switch {
	case !isClusterName(s.Owner.Cluster) || len(s.Owner.Tag()) > 128:
		return &cloud.Error{Kind: cloud.Refused, Action: describeVPCs, Text: quoted(s.Owner.Cluster) + " cannot be in a tag; use a cluster name of letters, digits and _.:/=+@-, at most 80"}
	case s.VPC != "" && !isID("vpc", s.VPC):
		return &cloud.Error{Kind: cloud.Refused, Action: describeVPCs, Text: quoted(s.VPC) + " is not a VPC; use one like vpc-0123456789abcdef0"}
	}
	return nil
}

// networkAgain reads the parts that prove that a network is still as remembered. It
// returns false if it is not, or if no reading is remembered.
func (c *Client) networkAgain(ctx context.Context, s NetworkScope) (awsnet.Account, bool, error) {
	last, next := c.networks.recall(s)
	if last == nil {
		return awsnet.Account{}, false, nil
	}
	fast, slow := last.facts.parts()
	parts := fast
	for range min(len(slow), max(1, mostIdle-len(fast))) {
		parts = append(parts, slow[next%len(slow)])
		next++
	}
	r := &networkReader{c: c, scope: s, facts: make(facts), known: last.facts}
	r.findVPCs(last.facts)
	switch err := r.read(ctx, parts...); {
	case err != nil && cloud.KindOf(err) == cloud.Missing: // such as a deleted load balancer
		c.networks.forget(s)
		return awsnet.Account{}, false, nil
	case err != nil:
		return awsnet.Account{}, false, err
	}
	for _, p := range parts {
		if !reflect.DeepEqual(r.facts[p], last.facts[p]) {
			c.networks.forget(s)
			return awsnet.Account{}, false, nil
		}
	}
	a, err := last.facts.account()
	if err == nil {
		c.networks.advance(s, last, next)
	}
	return a, err == nil, err
}

// networkReader reads parts of a network.
type networkReader struct {
	c     *Client
	scope NetworkScope
	vpcs  []string // the VPCs that the network is in
	ours  []string // those of them with the cluster's tag
	six   bool     // whether one of them has IPv6
	known facts    // facts of the remembered reading, or nil

	mu    sync.Mutex
	facts facts
	count map[awsnet.Kind]int // of the region, if the scope has Count
}

func (r *networkReader) set(p part, value any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts[p] = value
}

// get returns a part of the remembered reading or, without one, a part that was already
// read.
func (r *networkReader) get(p part) any {
	if r.known != nil {
		return r.known[p]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.facts[p]
}

// read reads parts concurrently, and returns the most urgent error.
func (r *networkReader) read(ctx context.Context, parts ...part) error {
	errs := make([]error, len(parts))
	var running sync.WaitGroup
	free := make(chan struct{}, mostNetworkReads)
	for i, p := range parts {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			errs[i] = partReads[p.name](r, ctx, p)
		})
	}
	running.Wait()
	return firstUrgent(errs)
}

// firstUrgent returns the most urgent error, or nil.
func firstUrgent(errs []error) error {
	failed := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(failed) == 0 {
		return nil
	}
	return slices.MinFunc(failed, func(a, b error) int { return cmp.Compare(urgency(a), urgency(b)) })
}

// urgency orders the errors of a reading: a missing permission comes first. An object
// that does not exist comes last, because it may be a part of the reading.
func urgency(err error) int {
	if e, ok := errors.AsType[*cloud.Error](err); ok {
		switch e.Kind {
		case cloud.Denied:
			return 0
		case cloud.Missing:
			return 2
		}
	}
	return 1
}

// readAll reads everything.
func (r *networkReader) readAll(ctx context.Context) error {
	first := []part{{name: partVPCs}, {name: partTaggedGateways}, {name: partAddresses}}
	if r.scope.VPC != "" {
		first = append(first, part{partVPCs, r.scope.VPC})
	}
	if err := r.read(ctx, first...); err != nil {
		return err
	}
	r.findVPCs(r.facts)
	if len(r.vpcs) == 0 && !r.scope.Holders {
		return nil
	}
	parts := r.inVPCs()
	if len(r.vpcs) == 0 { // target groups outlive their VPC
		parts = nil
		r.set(part{name: partGroups}, groupList{})
		if r.set(part{name: partBalancers}, balancerList(nil)); r.scope.Balancers {
			parts = []part{{name: partTargetGroups}}
		}
	}
	if err := r.read(ctx, parts...); err != nil {
		return err
	}
	then := []part{{name: partRules}}
	if r.scope.Balancers {
		then = append(then, part{name: partBalancerTags})
	}
	if err := r.read(ctx, then...); err != nil {
		return err
	}
	if !r.scope.Balancers {
		return nil
	}
	r.separate()
	if err := r.read(ctx, r.details()...); err != nil {
		return err
	}
	return r.read(ctx, part{name: partListenerTags})
}

// findVPCs sets the VPCs that other parts are read from.
func (r *networkReader) findVPCs(f facts) {
	for p, value := range f {
		if p.name != partVPCs {
			continue
		}
		for _, v := range value.(vpcList) {
			if !slices.Contains(r.vpcs, v.id) {
				r.vpcs = append(r.vpcs, v.id)
			}
			if v.tags[r.scope.Owner.Tag()] == "owned" && !slices.Contains(r.ours, v.id) {
				r.ours = append(r.ours, v.id)
			}
			r.six = r.six || slices.ContainsFunc(v.blocks, func(b blockFacts) bool { return b.prefix.Addr().Is6() })
		}
	}
	slices.Sort(r.vpcs)
	slices.Sort(r.ours)
}

// inVPCs returns the parts that depend on the VPCs alone.
func (r *networkReader) inVPCs() []part {
	parts := []part{{name: partSubnets}, {name: partTables}, {name: partGateways}, {name: partNATs}, {name: partEndpoints}, {name: partGroups}}
	for _, id := range r.ours {
		parts = append(parts, part{partHostnames, id}, part{partSupport, id})
	}
	s := r.scope
	for name, wanted := range map[string]bool{
		partEgress: r.six || s.Holders, partBastion: s.Bastion || s.Holders, partCarriers: s.Carrier,
		partBalancers: s.Balancers, partTargetGroups: s.Balancers, partHolders: s.Holders,
	} {
		if wanted {
			parts = append(parts, part{name: name})
		}
	}
	return parts
}
