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
	// ID is set for deletions and waits: a Key may belong to two objects after a crash.
	ID string
}

// Step makes one object what it is to be.
type Step struct {
	StepID
	// Want is what is to be there, with Keys in its Refs, and Have what is there.
	Want, Have Object
	// Current is the ID of Have.
	Current string
	// Tags are those of the call that creates it, and in a change those to write.
	Tags map[string]string
	// Calls are the calls of AWS's API, in their order. A Step that is interrupted between
	// two of them is continued by the next Plan.
	Calls []Call
	// Needs are the steps of this Plan that end before it begins.
	Needs []StepID
	// Token is for calls with a ClientToken. See Token.
	Token string
	// Summary is one line for people.
	Summary string
}

// Call is one call of AWS's API, by its name. Part is what of the object it changes, in
// the words of the API, for calls that change one of several.
type Call struct{ Action, Part string }

func (c Call) String() string {
	if c.Part == "" {
		return c.Action
	}
	return c.Action + " " + c.Part
}

// Plan is what is left to do: a graph without cycles.
type Plan struct {
	Steps []Step
	// Problems are differences that no call can remove, such as another block of a VPC.
	Problems []Problem
	// Foreign is what in the cluster's objects is not ours, and stays.
	Foreign []Found
	// Blocked are objects that a deletion has to leave for now, and what holds them.
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
		var whole Ref
		switch o := f.Object.(type) {
		case Block:
			whole = o.VPC
		case Route:
			whole = o.Table
		case Association:
			whole = o.Subnet
		case Listener:
			whole = o.Balancer
		case Rule:
			whole = o.Owner
		}
		if !goes[whole.Key] {
			all = append(all, f)
		}
	}
	return all
}

// Blocker is what keeps an object from being deleted.
type Blocker struct {
	Key Key
	ID  string
	// By is one line for people: what holds it, and for whom that was made.
	By string
}
