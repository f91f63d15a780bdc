package netstate

import (
	"fmt"
	"strings"
)

// Verb is what an Op does.
type Verb uint8

const (
	// Create makes an object where there is none of ours. It must not replace
	// another's.
	Create Verb = iota
	// Replace puts the object in the place of what has its key, without a gap.
	Replace
	// Delete removes what has the object's key, if it is of ours; another's
	// route only if it is just as the object says.
	Delete
)

func (v Verb) String() string {
	if v > Delete {
		return fmt.Sprintf("verb(%d)", uint8(v))
	}
	return [...]string{"create", "replace", "delete"}[v]
}

// Op is one step of a Plan.
type Op struct {
	Verb   Verb
	Object Object
}

func (o Op) String() string { return fmt.Sprintf("%s %s", o.Verb, o.Object) }

// Plan is a list of steps in an order in which they can be taken: all that is
// made or replaced before all that is deleted, what others depend on made
// first and deleted last.
type Plan []Op

func (p Plan) String() string {
	var b strings.Builder
	for _, op := range p {
		b.WriteString(op.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// Split parts p into what adds and what deletes.
func (p Plan) Split() (sets, deletes Plan) {
	for i, op := range p {
		if op.Verb == Delete {
			return p[:i], p[i:]
		}
	}
	return p, nil
}

// Planner collects steps in any order and puts them into a Plan's.
type Planner struct {
	set, del [kinds][]Op
}

// Add takes one step.
func (p *Planner) Add(v Verb, o Object) {
	to := &p.set
	if v == Delete {
		to = &p.del
	}
	k := kindOf(o)
	to[k] = append(to[k], Op{v, o})
}

// Plan returns the steps so far, in order.
func (p *Planner) Plan() Plan {
	n := 0
	for k := range kinds {
		n += len(p.set[k]) + len(p.del[k])
	}
	if n == 0 {
		return nil
	}
	plan := make(Plan, 0, n)
	for k := range kinds {
		plan = append(plan, p.set[k]...)
	}
	for k := range kinds {
		plan = append(plan, p.del[kinds-1-k]...)
	}
	return plan
}

// kindOf returns o.Key().Kind without making the key.
func kindOf(o Object) Kind {
	switch o.(type) {
	case Link:
		return KindLink
	case Sysctl:
		return KindSysctl
	case Addr:
		return KindAddr
	case Neigh:
		return KindNeigh
	case FDB:
		return KindFDB
	case Route:
		return KindRoute
	default:
		return o.Key().Kind
	}
}
