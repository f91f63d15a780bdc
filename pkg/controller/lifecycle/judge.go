package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/kube"
)

// Rules limit when Nodes are deleted.
type Rules struct {
	// Limit is how many percent of the Nodes may be deleted in an hour. It allows one
	// Node at least, unless it is 0: then no Node is ever deleted.
	Limit int
	// Remembers is how long the cloud shows an instance after its end; 0 is not at all.
	// One that is missing without having been shown as terminated is suspicious for that
	// long.
	Remembers time.Duration
	// Times are the rules' own times. The zero Times are Usual.
	Times Times
}

// subject is a Node as the judge knows it.
type subject struct {
	name, uid, version string
	id                 string // its providerID
	ready, deleting    bool
	shutdown           bool             // it has the Taint
	taints             []kube.TaintSpec // the others

	state   cloud.State // of its instance, as a credible answer had it; "" is unknown
	problem string      // why the cloud cannot be asked about it
	gone    *evidence   // nil unless the last answer said that the instance is gone
	// outlived is whether a kubelet worked under the Node after its instance was gone. So
	// the Node's machine is another one, which got the name, and may live. This process
	// has seen that.
	outlived bool
	// marked is whether the Node's Mark says the same. Anyone who may patch Nodes can
	// write it, so it only ever prevents a deletion.
	marked bool
	// back is since when answers show the instance of a Node that is held, and refuted is
	// whether they did for long enough: the Node was held wrongly.
	back    time.Time
	refuted bool
}

// evidence is what shows that an instance is gone.
type evidence struct {
	first, last time.Time
	answers     int
	terminated  bool   // an answer said that it is terminated, and not just absent
	read        bool   // the Lease was read
	lease       string // the Lease's time of renewal; "" without a Lease
	unread      error  // why the Lease could not be read last
}

// answer is what one round found out about one Node.
type answer struct {
	uid      string // of the Node that was asked about
	instance cloud.Instance
	// lease is when the kubelet renewed its Lease last, as the Lease has it; "" without
	// a Lease. unread is why it could not be read. Both are set only if the instance is
	// gone.
	lease  string
	unread error
}

// round is one complete lookup, or a failed one.
type round struct {
	at      time.Time
	failed  string            // why it is not complete, or ""
	answers map[string]answer // by Node
}

// judge decides which Nodes to delete. It knows what it is told, and no clock.
type judge struct {
	rules    Rules
	subjects map[string]*subject
	began    time.Time // the term
	last     time.Time // the last round
	identity string    // account and region of the instances that are alive
	doubt    string    // why the last round decides nothing, or ""
	blind    string    // a ready Node without an instance, or ""
	since    time.Time // when the doubt, or the blindness, began; zero is neither

	// follows is since when the judge sees every Node that goes. The limit of an hour
	// needs that: what an earlier process deleted is written nowhere.
	follows time.Time
	deleted map[string]time.Time // when Nodes went that were not ready, by uid

	suspects map[string]bool // the Nodes with evidence, and perhaps some without
	lasting  int             // Nodes that are not being deleted
}

func newJudge(r Rules) judge {
	r.Times = cmp.Or(r.Times, Usual)
	return judge{rules: r, subjects: make(map[string]*subject), deleted: make(map[string]time.Time), suspects: make(map[string]bool)}
}

// begin begins a term: what was seen before counts for nothing, unless it speaks against
// a deletion.
func (j *judge) begin(now time.Time) {
	j.began, j.last, j.identity, j.doubt, j.blind, j.since = now, time.Time{}, "", "", "", time.Time{}
	for _, s := range j.subjects {
		s.state, s.problem, s.gone, s.back, s.refuted = "", "", nil, time.Time{}, false
	}
}

// set takes a state of a Node.
func (j *judge) set(v subject, now time.Time) {
	s := j.subjects[v.name]
	if s != nil && s.uid != v.uid {
		j.remove(v.name, now, false)
		s = nil
	}
	if s != nil && s.id == v.id {
		v.outlived, v.back, v.refuted = s.outlived, s.back, s.refuted
		if s.ready == v.ready {
			v.state, v.problem, v.gone = s.state, s.problem, s.gone
		} else if v.turns(s.gone); v.outlived {
			j.suspects[v.name] = true
		}
	}
	if v.marked {
		j.suspects[v.name] = true
	}
	if v.deleting {
		v.gone = nil
	}
	if s != nil && !s.deleting {
		j.lasting--
	}
	if !v.deleting {
		j.lasting++
	} else if s != nil && !s.deleting {
		j.goes(s, now, false)
	}
	j.subjects[v.name] = &v
}

// turns applies what was seen before the Node became ready, or stopped being ready. An
// answer about the state counts for nothing after that; a Lease that was renewed does.
func (v *subject) turns(e *evidence) {
	switch {
	case e == nil:
	case v.ready && e.answers > 0:
		v.outlived = true
	default:
		v.gone = &evidence{first: e.first, last: e.last, read: e.read, lease: e.lease}
	}
}

// remove takes the deletion of a Node. If it was missed, the Node may have changed before.
func (j *judge) remove(name string, now time.Time, missed bool) {
	s := j.subjects[name]
	if s == nil {
		return
	}
	if !s.deleting {
		j.goes(s, now, missed)
		j.lasting--
	}
	delete(j.subjects, name)
	delete(j.suspects, name)
}

// goes counts a Node that goes while it is not ready: a leader may have deleted it.
func (j *judge) goes(s *subject, now time.Time, missed bool) {
	if _, is := j.deleted[s.uid]; !is && (!s.ready || missed) {
		j.deleted[s.uid] = now
	}
}

// isGone reports whether a state says that an instance never runs again.
func isGone(s cloud.State) bool { return s == cloud.Terminated || s == cloud.Absent }

// isAlive reports whether a state says that the cloud has the instance.
func isAlive(s cloud.State) bool { return s != "" && !isGone(s) }

// take takes the outcome of a round.
func (j *judge) take(r round) {
	j.last = r.at
	if j.doubt = r.failed; j.doubt == "" {
		j.doubt = j.discredit(r)
	}
	if j.doubt == "" {
		j.read(r)
	}
	switch {
	case j.doubt == "" && j.blind == "":
		j.since = time.Time{}
	case j.since.IsZero():
		j.since = r.at
	}
}

// read takes the answers of a credible round.
func (j *judge) read(r round) {
	for name, a := range r.answers {
		if s := j.subjects[name]; s != nil && s.uid == a.uid {
			s.state, s.problem = a.instance.State, a.instance.Problem
		}
	}
	j.blind = ""
	for name, s := range j.subjects {
		if s.ready && !s.deleting && s.state == cloud.Absent && (j.blind == "" || name < j.blind) {
			j.blind = name
		}
	}
	for name, a := range r.answers {
		s := j.subjects[name]
		if s == nil || s.uid != a.uid {
			continue
		}
		switch {
		case !isGone(a.instance.State):
			s.gone = nil
			s.lives(a.instance.State, r.at, j.rules.Times.Enough)
		case s.deleting:
			s.gone = nil
		default:
			j.see(s, a, r.at, j.blind != "")
			j.suspects[name] = true
		}
	}
}

// see records an answer that the instance is gone. If the cloud is blind, one that is just
// absent may be there.
func (j *judge) see(s *subject, a answer, at time.Time, blind bool) {
	e, terminated := s.gone, a.instance.State == cloud.Terminated
	s.back, s.refuted = time.Time{}, false
	if e != nil && e.read && a.unread == nil && a.lease != "" && a.lease != e.lease {
		s.outlived = true // a Lease that was renewed shows a kubelet at work
	}
	switch {
	case a.unread != nil:
		if e == nil {
			e = &evidence{first: at, last: at}
		}
		e.unread = a.unread
	case e == nil, e.answers == 0, at.Sub(e.last) > j.rules.Times.Gap, a.lease != e.lease, terminated && !e.terminated,
		blind && !terminated && !e.terminated:
		e = &evidence{first: at, last: at, answers: 1, read: true, lease: a.lease, terminated: terminated}
	default:
		e.last, e.unread = at, nil
		e.answers++
	}
	s.gone = e
	if s.ready && e.lease == "" && e.read && e.isEnough(j.rules.Times.Enough) {
		s.outlived = true // without a Lease, only the condition shows a kubelet at work
	}
}

// isEnough reports whether enough answers agree, for long enough.
func (e *evidence) isEnough(long time.Duration) bool {
	return e.answers >= enoughAnswers && e.last.Sub(e.first) >= long
}

// discredit returns why a complete round is not credible, or "". The cloud has to know
// other Nodes of this cluster: credentials of another account show none of them.
func (j *judge) discredit(r round) string {
	alive, vouch, deny, identity := 0, 0, 0, make(map[string]bool)
	denied := ""
	for name, a := range r.answers {
		s := j.subjects[name]
		switch {
		case s == nil || s.uid != a.uid:
		case isAlive(a.instance.State):
			alive++
			identity[a.instance.Account+" "+a.instance.Region] = true
			if s.ready {
				vouch++
			}
		case s.outlived && a.instance.State == cloud.Terminated: // as is known
		case s.ready && isGone(a.instance.State):
			deny++
			if denied == "" || name < denied {
				denied = name
			}
		}
	}
	switch {
	case alive == 0:
		j.forget()
		return "the cloud shows no instance of any Node that it was asked about; check the credentials, the account and the region"
	case deny > 0 && deny >= vouch:
		j.forget()
		return fmt.Sprintf("the cloud calls the instances of %d ready Nodes gone, and shows those of %d; check the credentials, the account and the region, or the providerID of Node %s", deny, vouch, denied)
	}
	var all []string
	for i := range identity {
		all = append(all, i)
	}
	slices.Sort(all)
	now := strings.Join(all, ",")
	if j.identity != "" && j.identity != now {
		j.forget()
	}
	j.identity = now
	return ""
}

// forget makes all that was seen count for nothing.
func (j *judge) forget() {
	for _, s := range j.subjects {
		s.gone, s.back, s.refuted = nil, time.Time{}, false
	}
}
