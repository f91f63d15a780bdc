package awstest

import (
	"slices"
	"time"
)

// state is the state of an instance.
type state struct {
	code int
	name string
}

var (
	pending      = state{0, "pending"}
	running      = state{16, "running"}
	shuttingDown = state{32, "shutting-down"}
	terminated   = state{48, "terminated"}
	stopping     = state{64, "stopping"}
	stopped      = state{80, "stopped"}
)

type instance struct {
	meta
	reservation         string
	index               int // in its reservation
	subnet              *subnet
	zone                zone
	itype, image, key   string
	token               string
	state               state
	launched            time.Time
	enis                []*eni // by device index; none once it is terminated
	byName              bool   // its name is made of its resource ID
	aRecord, aaaaRecord bool
	protected           bool // against termination
	reason, reasonCode  string
}

// takesPackets reports whether a route to the instance is active.
func (i *instance) takesPackets() bool { return i.state == running || i.state == pending }

func (i *instance) has(index int) bool {
	return slices.ContainsFunc(i.enis, func(n *eni) bool { return n.at.index == index })
}

func (i *instance) drop(n *eni) {
	i.enis = slices.DeleteFunc(i.enis, func(o *eni) bool { return o == n })
}

// name returns the private DNS name of an instance.
func (a *account) nameOf(i *instance) string {
	switch {
	case len(i.enis) == 0:
		return ""
	case i.byName:
		return i.id + a.dnsSuffix()
	}
	return a.privateName(i.enis[0].v4[0].private)
}

// move sets the state of an instance, and moves it to the next state after a while.
func (a *account) move(i *instance, now state, after time.Duration, then state) {
	i.state = now
	a.later(after, func() {
		if i.state != now { // such as one that was terminated while it booted
			return
		}
		i.state = then
		if then == terminated {
			a.bury(i)
		}
	})
}

// bury removes the interfaces of a terminated instance. Describes show it for a while.
func (a *account) bury(i *instance) {
	for _, n := range i.enis {
		if deletes := n.at.deletes; deletes {
			a.deleteInterface(n)
		}
		n.at = nil
	}
	i.enis, i.subnet = nil, nil
	a.later(a.s.settings.Visible, func() { a.instances.remove(i) })
}

// changes are the instances whose state a request changes. All must exist.
func (r *request) changes() ([]*instance, error) {
	ids := r.form.texts("InstanceId")
	if len(ids) == 0 {
		return nil, bad("MissingParameter", "The request must contain the parameter InstanceId")
	}
	if r.set.LagWrites {
		return byIDs(r, &r.instances, instanceKind, ids)
	}
	unhurried := *r
	unhurried.set.Lag = 0
	return byIDs(&unhurried, &r.instances, instanceKind, ids)
}

// change changes the states of instances, and answers with the old and new ones.
func (r *request) change(all []*instance, f func(*instance)) {
	items(r.x, "instancesSet", all, func(i *instance) {
		before := i.state
		f(i)
		r.x.text("instanceId", i.id)
		r.x.within("currentState", func() { i.state.write(r.x) })
		r.x.within("previousState", func() { before.write(r.x) })
	})
}

func (s state) write(x *answer) {
	x.number("code", s.code)
	x.text("name", s.name)
}

func terminateInstances(r *request) error {
	all, err := r.changes()
	if err != nil {
		return err
	}
	for _, i := range all {
		if i.protected {
			return bad("OperationNotPermitted", "The instance '%s' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again.", i.id)
		}
	}
	r.change(all, func(i *instance) {
		if i.state == terminated || i.state == shuttingDown {
			return
		}
		i.reason, i.reasonCode = "Client.UserInitiatedShutdown: User initiated shutdown", "Client.UserInitiatedShutdown"
		r.move(i, shuttingDown, r.set.Terminate, terminated)
	})
	return nil
}

func stopInstances(r *request) error {
	all, err := r.changes()
	if err != nil {
		return err
	}
	for _, i := range all {
		if i.state == terminated || i.state == shuttingDown {
			return bad("IncorrectInstanceState", "This instance '%s' is not in a state from which it can be stopped.", i.id)
		}
	}
	r.change(all, func(i *instance) {
		if i.state == stopped || i.state == stopping {
			return
		}
		i.reason, i.reasonCode = "Client.UserInitiatedShutdown: User initiated shutdown", "Client.UserInitiatedShutdown"
		// A stop frees a public address that is not elastic.
		for _, n := range i.enis {
			for k := range n.v4 {
				if n.v4[k].elastic == "" {
					n.v4[k].public = noAddress
				}
			}
		}
		r.move(i, stopping, r.set.Stop, stopped)
	})
	return nil
}

func startInstances(r *request) error {
	all, err := r.changes()
	if err != nil {
		return err
	}
	for _, i := range all {
		if i.state != stopped && i.state != running && i.state != pending {
			return bad("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be started.", i.id)
		}
	}
	r.change(all, func(i *instance) {
		if i.state != stopped {
			return
		}
		i.reason, i.reasonCode, i.launched = "", "", r.now
		if n := i.enis[0]; i.subnet.public && len(i.enis) == 1 && !n.v4[0].public.IsValid() {
			n.v4[0].public = r.nextPublic()
		}
		r.move(i, pending, r.set.Boot, running)
	})
	return nil
}

// rebootInstances changes nothing that describes show.
func rebootInstances(r *request) error {
	if _, err := r.changes(); err != nil {
		return err
	}
	r.x.flag("return", true)
	return nil
}
