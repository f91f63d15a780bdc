package awsnet

// Verb is what a Step does.
type Verb string

// The verbs. Wait changes nothing: it ends when the object can be used, or is gone.
const (
	Create Verb = "create"
	Change Verb = "change"
	Delete Verb = "delete"
	Wait   Verb = "wait"
)

// StepID names a Step within its Plan.
type StepID struct {
	Verb Verb
	Key  Key
	// ID is set for deletions and waits, because after a crash two objects may have the
	// same Key.
	ID string
}

// Step creates, changes or deletes one object, or waits for it.
type Step struct {
	StepID
	// Want is the wanted object, with Keys in its Refs, and Have the existing one.
	Want, Have Object
	// Current is the ID of Have.
	Current string
	// Tags are those that the call writes: all of a new object, or the changed ones.
	Tags map[string]string
	// Calls are the calls of AWS's API, in their order. If a Step is interrupted
	// between two of them, the next Plan continues it.
	Calls []Call
	// Needs are the steps of this Plan that must end before it begins.
	Needs []StepID
	// Token is for calls with a ClientToken. See Token.
	Token string
	// Summary is a text of one line for people.
	Summary string
}

// Call is one call of AWS's API, by its name. Part is the changed attribute, in the
// words of the API, for calls that change one of several.
type Call struct{ Action, Part string }

func (c Call) String() string {
	if c.Part == "" {
		return c.Action
	}
	return c.Action + " " + c.Part
}

// Plan is the steps that are left: a graph without cycles.
type Plan struct {
	Steps []Step
	// Problems are differences that no call can remove, such as another block of a VPC.
	Problems []Problem
	// Foreign are the objects in the cluster's objects that are not ours. They stay.
	Foreign []Found
	// Blocked are objects that a deletion cannot delete yet, and the reasons.
	Blocked []Blocker

	ours    map[Key]Found // what a Binder knows
	holding Holding
}

// Kept returns what is foreign, without what goes with an object that the plan deletes, such as
// the rules of a security group.
func (p Plan) Kept() (all []Found) {
	goes := make(map[Key]bool)
	for _, s := range p.Steps {
		goes[s.Key] = goes[s.Key] || s.Verb == Delete
	}
	for _, f := range p.Foreign {
		if !goes[wholeOf(f.Object).Key] {
			all = append(all, f)
		}
	}
	return all
}

// Blocker is a reason why an object cannot be deleted.
type Blocker struct {
	Key Key
	ID  string
	// By is a text of one line for people: the object that prevents it, and what that
	// was created for.
	By string
}

// wholeOf returns what a part belongs to, and is deleted with; an empty Ref for objects that
// stand alone.
func wholeOf(o Object) Ref {
	switch o := o.(type) {
	case Block:
		return o.VPC
	case Route:
		return o.Table
	case Association:
		return o.Subnet
	case Listener:
		return o.Balancer
	case Rule:
		return o.Owner
	}
	return Ref{}
}
