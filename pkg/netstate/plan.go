package netstate

import (
	"fmt"
	"slices"
	"strings"
)

// Verb is what an Op does.
type Verb uint8

const (
	// Create makes an object where there is none of ours. It must not replace
	// another's.
	Create Verb = iota
	// Replace puts the object in place of what has its key, without a gap.
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
// first and deleted last. Routes that drop packets come before all else, and are deleted
// after it, so that no packet leaves another way meanwhile.
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
	steps []Op
	ranks [ranks]int // how many steps have each rank
	spare Plan       // empty; see Reuse

	setsOnly bool // deletes are only noted
	deletes  bool // some were added
}

// Grow makes room for n more steps.
func (p *Planner) Grow(n int) { p.steps = slices.Grow(p.steps, n) }

// Add takes one step.
func (p *Planner) Add(v Verb, o Object) {
	if v == Delete {
		p.deletes = true
		if p.setsOnly {
			return
		}
	}
	op := Op{v, o}
	p.steps = append(p.steps, op)
	p.ranks[op.rank()]++
}

// Plan returns the steps so far, in order.
func (p *Planner) Plan() Plan {
	if len(p.steps) == 0 {
		return nil
	}
	var next [ranks]int // where the next step of each rank belongs
	for r := 1; r < len(next); r++ {
		next[r] = next[r-1] + p.ranks[r-1]
	}
	plan := slices.Grow(p.spare, len(p.steps))[:len(p.steps)]
	for _, op := range p.steps {
		at := &next[op.rank()]
		plan[*at] = op
		*at++
	}
	return plan
}

// Reuse empties the Planner, and keeps the memory of its steps, and of the Plan that it
// returned, for the next Plan.
func (p *Planner) Reuse(plan Plan) {
	clear(p.steps)
	clear(plan)
	*p = Planner{steps: p.steps[:0], spare: plan[:0]}
}

// ranks is how many ranks there are.
const ranks = 2 * (kinds + 1)

// rank orders steps: the kinds that are made or replaced, then those that are deleted,
// in reverse.
func (o Op) rank() Kind {
	r := kindOf(o.Object) + 1
	if route, ok := o.Object.(Route); ok && route.Drop {
		r = 0 // it needs no link
	}
	if o.Verb == Delete {
		return ranks - 1 - r
	}
	return r
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
	case WGPeer:
		return KindWGPeer
	case WGAllowed:
		return KindWGAllowed
	case UDPPeer:
		return KindUDPPeer
	case Route:
		return KindRoute
	case Command:
		return KindCommand
	default:
		return o.Key().Kind
	}
}
