package awscluster

import (
	"fmt"
	"slices"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/awsnet/apply"
	"github.com/tulle-net/tulle/pkg/kube/capi"
)

// The conditions of the whole.
const (
	readyCondition  = "Ready"
	pausedCondition = "Paused"
)

// part is a part of a network that has a condition, by the name that Cluster API's AWS
// provider gives it.
type part struct {
	condition string
	kinds     []awsnet.Kind
}

// parts are all parts, in the order in which they are built.
var parts = []part{
	{"VpcReady", []awsnet.Kind{awsnet.KindVPC, awsnet.KindTagging}},
	{"SecondaryCidrsReady", []awsnet.Kind{awsnet.KindBlock}},
	{"SubnetsReady", []awsnet.Kind{awsnet.KindSubnet}},
	{"InternetGatewayReady", []awsnet.Kind{awsnet.KindInternetGateway}},
	{"EgressOnlyInternetGatewayReady", []awsnet.Kind{awsnet.KindEgressGateway}},
	{"CarrierGatewayReady", []awsnet.Kind{awsnet.KindCarrierGateway}},
	{"NatGatewaysReady", []awsnet.Kind{awsnet.KindAddress, awsnet.KindNATGateway}},
	{"RouteTablesReady", []awsnet.Kind{awsnet.KindRouteTable, awsnet.KindRoute, awsnet.KindAssociation}},
	{"VpcEndpointsReadyCondition", []awsnet.Kind{awsnet.KindEndpoint}},
	{"ClusterSecurityGroupsReady", []awsnet.Kind{awsnet.KindSecurityGroup, awsnet.KindRule}},
	{"BastionHostReady", []awsnet.Kind{awsnet.KindBastion}},
	{"LoadBalancerReady", []awsnet.Kind{awsnet.KindBalancer, awsnet.KindTargetGroup, awsnet.KindListener}},
}

// isOurs reports whether a condition is this controller's.
func isOurs(condition string) bool {
	return condition == readyCondition || condition == pausedCondition || slices.ContainsFunc(parts, func(p part) bool { return p.condition == condition })
}

// The reasons of conditions.
const (
	reasonReady     = "Ready"
	reasonPaused    = "Paused"
	reasonNotPaused = "NotPaused"
	reasonUnowned   = "WaitingForClusterOwner"
	reasonInvalid   = "InvalidSpec"
	reasonReading   = "Reading"
	reasonUnread    = "ReadingFailed"
	reasonQuota     = "QuotaExceeded"
	reasonFailed    = "ChangeFailed"
	reasonWorking   = "InProgress"
	reasonDeleting  = "Deleting"
	reasonBlocked   = "DeletionBlocked"
	reasonFixed     = "CannotChange"
	reasonEndpoint  = "WaitForExternalControlPlaneEndpoint"
)

func condition(kind, status, severity, reason, message string) capi.Condition {
	return capi.Condition{Type: kind, Status: status, Severity: severity, Reason: reason, Message: message}
}

// conditions returns the conditions of a network, and false if they are not known: then those
// that it has stay.
func (n *network) conditions() (all []capi.Condition, known bool) {
	paused := condition(pausedCondition, capi.False, capi.Info, reasonNotPaused, "")
	if n.gate == Paused {
		paused.Status, paused.Reason, paused.Message = capi.True, reasonPaused, "the object or its Cluster is paused; nothing is changed"
		return append(n.kept(pausedCondition), paused), true
	}
	whole := func(status, severity, reason, message string) []capi.Condition {
		return append(n.kept(readyCondition, pausedCondition), condition(readyCondition, status, severity, reason, message), paused)
	}
	s := n.seen
	switch {
	case n.gate == Unowned:
		return whole(capi.False, capi.Info, reasonUnowned, "no Cluster owns this object yet"), true
	case len(n.problems) > 0:
		return whole(capi.False, capi.Error, reasonInvalid, problemsText(n.problems)), true
	case s == nil && len(n.status.Conditions) == 0:
		return whole(capi.Unknown, "", reasonReading, "the account is being read"), true
	case s == nil:
		return nil, false
	case s.err != nil:
		return whole(capi.Unknown, "", reasonUnread, s.err.Error()), true
	case len(s.problems) > 0:
		return whole(capi.False, capi.Error, reasonInvalid, problemsText(s.problems)), true
	}
	for _, p := range parts {
		if c, has := n.partCondition(p); has {
			all = append(all, c)
		}
	}
	return append(all, n.ready(), paused), true
}

// kept returns the present conditions that are ours, without some.
func (n *network) kept(but ...string) (all []capi.Condition) {
	for _, c := range n.status.Conditions {
		if isOurs(c.Type) && !slices.Contains(but, c.Type) {
			all = append(all, c)
		}
	}
	return all
}

// ready returns the condition of the whole.
func (n *network) ready() capi.Condition {
	s := n.seen
	no := func(severity, reason, message string) capi.Condition {
		return condition(readyCondition, capi.False, severity, reason, message)
	}
	switch {
	case len(s.short) > 0:
		return no(capi.Error, reasonQuota, "nothing was begun: "+s.shortage().Error())
	case len(n.trouble) > 0:
		return no(capi.Error, reasonFailed, troubleText(n.trouble))
	case s.job.end && len(s.plan.Blocked) > 0:
		return no(capi.Warning, reasonBlocked, blockedText(s.plan))
	case s.job.end:
		return no(capi.Info, reasonDeleting, n.progress())
	case len(s.plan.Steps) > 0:
		return no(capi.Info, reasonWorking, n.progress())
	case len(s.plan.Problems) > 0:
		return no(capi.Warning, reasonFixed, problemsText(s.plan.Problems))
	case !n.provisioned() && s.facts.external:
		return no(capi.Info, reasonEndpoint, "the network has no load balancer for the API servers; set spec.controlPlaneEndpoint")
	}
	return condition(readyCondition, capi.True, "", reasonReady, "")
}

// progress returns how far the plan is.
func (n *network) progress() string {
	if n.run == nil {
		if n.seen.job.end && n.seen.gone {
			return "nothing of the network is left"
		}
		return "the account is being read again"
	}
	p := n.run.Progress()
	text := fmt.Sprintf("%d of %d steps are done", p.Done, p.Steps)
	if len(p.Waiting) > 0 {
		text += "; AWS works on " + listed(p.Waiting, ", ")
	}
	return text
}

// partCondition returns the condition of a part, and false if the network has no such part.
func (n *network) partCondition(p part) (c capi.Condition, has bool) {
	s := n.seen
	is := func(k awsnet.Kind) bool { return slices.Contains(p.kinds, k) }
	if !slices.ContainsFunc(p.kinds, func(k awsnet.Kind) bool { return s.facts.kinds[k] }) {
		return c, false
	}
	no := func(severity, reason, message string) (capi.Condition, bool) {
		return condition(p.condition, capi.False, severity, reason, message), true
	}
	var failed []apply.Failure
	for _, f := range n.trouble {
		if is(f.Step.Key.Kind) {
			failed = append(failed, f)
		}
	}
	var blocked []awsnet.Blocker
	for _, b := range s.plan.Blocked {
		if is(b.Key.Kind) {
			blocked = append(blocked, b)
		}
	}
	var steps []string
	for _, step := range s.plan.Steps {
		if is(step.Key.Kind) {
			steps = append(steps, step.Summary)
		}
	}
	var fixed []awsnet.Problem
	for _, x := range s.plan.Problems {
		if k, ok := awsnet.ParseKey(x.Field); ok && is(k.Kind) {
			fixed = append(fixed, x)
		}
	}
	switch {
	case len(failed) > 0:
		return no(capi.Error, reasonFailed, troubleText(failed))
	case len(blocked) > 0:
		return no(capi.Warning, reasonBlocked, blockedText(awsnet.Plan{Blocked: blocked}))
	case len(steps) > 0 && s.job.end:
		return no(capi.Info, reasonDeleting, listed(steps, "; "))
	case len(steps) > 0:
		return no(capi.Info, reasonWorking, listed(steps, "; "))
	case len(fixed) > 0:
		return no(capi.Warning, reasonFixed, problemsText(fixed))
	case s.job.end:
		return no(capi.Info, reasonDeleting, "")
	}
	return condition(p.condition, capi.True, "", reasonReady, ""), true
}

// provisioned reports whether the network was ready once. It stays so: machines may use it.
func (n *network) provisioned() bool {
	return n.status.provisioned() || n.settled && n.reachable()
}

// reachable reports whether the address of the API servers is known.
func (n *network) reachable() bool {
	return n.endpoint.Valid() || n.seen != nil && n.seen.facts.external && n.outer.Valid()
}
