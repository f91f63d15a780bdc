package awsnet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// The tags of objects that service controllers create.
const (
	serviceTag    = "kubernetes.io/service-name"
	serviceUIDTag = "tulle.net/service-uid"
)

// isLeftover reports whether a cluster's cloud controllers created an object for a
// Service.
func isLeftover(o Owner, f Found) bool {
	switch f.Object.(type) {
	case Balancer, TargetGroup, SecurityGroup:
	default:
		return false
	}
	_, service := f.Tags[serviceTag]
	_, uid := f.Tags[serviceUIDTag]
	return !f.Fixed && (service || uid) && f.Tags[clusterTag+o.Cluster] == owned && f.Tags[o.Tag()] == ""
}

// Leftovers returns the objects that the cluster's cloud controllers created for
// Services in our VPC.
func Leftovers(h Holding) (all []Found) {
	for _, f := range h.Foreign {
		if isLeftover(h.Owner, f) {
			all = append(all, f)
		}
	}
	return all
}

// sweep makes the leftovers of the cloud controllers ours, so that the Plan deletes
// them.
func (d *differ) sweep() {
	keys := make(map[string]Key)
	d.h.Foreign = slices.DeleteFunc(slices.Clone(d.h.Foreign), func(f Found) bool {
		if !isLeftover(d.h.Owner, f) {
			return false
		}
		f.Object = named(f.Object, "of-service/"+f.ID)
		keys[f.ID] = f.Object.Key()
		d.h.Ours[f.Object.Key()] = f
		return true
	})
	ref := func(r Ref) Ref {
		if k, ours := keys[r.ID]; ours && r.ID != "" {
			return Ref{Key: k}
		}
		return r
	}
	ours := make(map[Key]Found, len(d.h.Ours))
	for _, f := range d.h.Ours {
		f.Object = f.Object.with(ref)
		ours[f.Object.Key()] = f
	}
	d.h.Ours = ours
	for i := range d.h.Foreign {
		d.h.Foreign[i].Object = d.h.Foreign[i].Object.with(ref)
	}
}

// block leaves out the deletions that AWS would refuse, and those that wait for them.
// The other steps remain.
func (d *differ) block() {
	for _, id := range slices.SortedFunc(maps.Keys(d.doomed), compareSteps) {
		if id.Verb != Delete {
			continue
		}
		if by := d.holders(id); by != "" {
			d.leave(id, "is held by "+by)
		}
	}
	for more := true; more; {
		more = false
		for _, id := range slices.SortedFunc(maps.Keys(d.steps), compareSteps) {
			i := slices.IndexFunc(d.steps[id].Needs, func(n StepID) bool { return d.steps[n] == nil })
			if i >= 0 {
				need := d.steps[id].Needs[i]
				d.leave(id, fmt.Sprintf("waits for %s %s", need.Key, need.ID))
				more = true
			}
		}
	}
}

// leave removes a step from the plan, and records why.
func (d *differ) leave(id StepID, why string) {
	at := d.steps[id].Current
	if at == "" {
		at = id.Key.String()
	}
	delete(d.steps, id)
	d.blocked = append(d.blocked, Blocker{Key: id.Key, ID: id.ID, By: at + " " + why})
}

// holders returns a text for people about the objects that prevent a deletion, or "".
func (d *differ) holders(id StepID) string {
	gone := d.doomed[id]
	var by []string
	for _, f := range d.h.Foreign {
		if d.holds(f, id, gone) {
			by = append(by, foreignText(f))
		}
	}
	for _, h := range d.account.Holders {
		if d.goes(h) {
			continue
		}
		holds := false
		switch o := gone.Object.(type) {
		case Subnet:
			holds = h.Subnet == gone.ID
		case SecurityGroup:
			holds = slices.Contains(h.Groups, gone.ID)
		case InternetGateway:
			holds = h.Public && h.VPC != "" && (h.VPC == o.VPC.ID || h.VPC == d.h.ID(o.VPC.Key))
		}
		if holds {
			by = append(by, h.text())
		}
	}
	switch len(by) {
	case 0:
		return ""
	case 1:
		return by[0]
	}
	return fmt.Sprintf("%s, and %d more", by[0], len(by)-1)
}

// holds reports whether a foreign object prevents the deletion of one of ours.
func (d *differ) holds(f Found, id StepID, gone Found) bool {
	if _, going := d.doomed[StepID{Delete, f.Object.Key(), f.ID}]; going {
		return false
	}
	is := func(r Ref) bool {
		return r.ID == gone.ID || r == Ref{Key: id.Key} && d.h.ID(id.Key) == gone.ID
	}
	switch o := f.Object.(type) {
	case Block, Route, Listener, TargetGroup: // AWS deletes these with the object that they are in, or they do not prevent its deletion
		return false
	case Rule:
		return is(o.Group) && !is(o.Owner)
	case Association:
		return is(o.Table)
	}
	return slices.ContainsFunc(f.Object.refs(), is)
}

// goes reports whether an interface belongs to an object that the Plan deletes.
func (d *differ) goes(h Holder) bool {
	for _, f := range d.doomed {
		switch f.Object.(type) {
		case Balancer:
			_, name, ok := strings.Cut(f.ID, ":loadbalancer/")
			if ok && h.Description == "ELB "+name {
				return true
			}
		case Bastion:
			if h.Instance == f.ID {
				return true
			}
		case NATGateway:
			if strings.HasSuffix(h.Description, " "+f.ID) {
				return true
			}
		}
	}
	return false
}

// text returns a text for people about an interface.
func (h Holder) text() string {
	text := h.ID
	switch name, balancer := strings.CutPrefix(h.Description, "ELB "); {
	case balancer:
		parts := strings.Split(name, "/")
		text += " of load balancer " + clip(parts[min(1, len(parts)-1)])
	case h.Instance != "":
		text += " of instance " + h.Instance
		if name := h.Tags["Name"]; name != "" {
			text += " (" + clip(name) + ")"
		}
	case h.Description != "":
		text += " (" + clip(h.Description) + ")"
	case h.Requester != "":
		text += " of " + clip(h.Requester)
	}
	return text + madeFor(h.Tags)
}

func foreignText(f Found) string {
	text := strings.ReplaceAll(string(f.Object.Key().Kind), "-", " ") + " " + f.ID
	if name := f.Tags["Name"]; name != "" {
		text += " (" + clip(name) + ")"
	}
	return text + madeFor(f.Tags)
}

func madeFor(tags map[string]string) string {
	if s := tags[serviceTag]; s != "" {
		return ", made for service " + clip(s)
	}
	return ""
}

// clip shortens texts that others wrote.
func clip(s string) string {
	if len(s) > 80 {
		s = strings.ToValidUTF8(s[:80], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}
