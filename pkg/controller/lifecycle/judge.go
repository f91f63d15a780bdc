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
	// Limit is the percentage of the Nodes that may be deleted in an hour. It allows at
	// least one Node, unless it is 0: then no Node is ever deleted.
	Limit int
	// LimitName is what texts call the setting of Limit, like --node-deletion-limit.
	LimitName string
	// Remembers is the time for which the cloud still shows a terminated instance; 0 is
	// not at all. An instance that was never shown as terminated must be missing for that
	// long.
	Remembers time.Duration
	// Times are the durations of the rules; the zero value is Usual.
	Times Times
}

// subject holds the facts of a Node, and the evidence about its instance.
type subject struct {
	name, uid, version string
	id                 string // its providerID
	machine            string // the ID of the machine whose kubelet uses the Node
	ready, deleting    bool
	shutdown           bool             // it has the Taint
	taints             []kube.TaintSpec // the others

	state   cloud.State // of its instance, as a credible answer had it; "" is unknown
	problem string      // why the cloud cannot be asked about it
	gone    *evidence   // nil unless the last answer said that the instance is gone
	// outlived is set if this process has seen that a kubelet used the Node after its
	// instance was gone. Then another machine has the same name and uses the Node, and that
	// machine may be alive.
	outlived bool
	// moved is set if another machine has begun to use the Node, and answers have not yet shown
	// that the instance runs.
	moved bool
	// marked is set if the Node's Mark says the same. Any program that may patch Nodes can
	// write a Mark, so it only ever prevents a deletion.
	marked bool
	// back is the time since which answers show the instance of a held Node. refuted is
	// set if they did so for long enough: the Node was held wrongly.
	back    time.Time
	refuted bool
}

// evidence is the evidence that an instance is gone.
type evidence struct {
	first, last time.Time
	answers     int
	terminated  bool   // an answer showed it as terminated, not just absent
	read        bool   // the Lease was read
	lease       string // the Lease's time of renewal; "" without a Lease
	unread      error  // why the last read of the Lease failed, or nil
}

// answer is the result of a round for one Node.
type answer struct {
	uid      string // of the Node at the beginning of the round
	instance cloud.Instance
	// lease is the time of the last renewal in the kubelet's Lease; "" without a Lease.
	// unread is why the Lease could not be read. Both are set only if the instance is gone.
	lease  string
	unread error
}

// round is one complete lookup, or a failed one.
type round struct {
	at      time.Time
	failed  string            // why it is incomplete, or ""
	answers map[string]answer // by Node
}

// judge decides which Nodes to delete. The Controller passes it the Nodes, the rounds and the
// time.
type judge struct {
	rules       Rules
	subjects    map[string]*subject
	began       time.Time // the term
	last        time.Time // the last round
	identity    string    // account and region of the instances that are alive
	doubt       string    // why the last round decides nothing, or ""
	absentReady string    // a ready Node without an instance, or ""
	since       time.Time // when the doubt, or the blindness, began; zero is neither

	// watching is the time since which the judge sees every deletion of a Node. The limit
	// of an hour needs this, because no object records the deletions of an earlier process.
	watching time.Time
	deleted  map[string]time.Time // the times of deletions of unready Nodes, by uid

	suspects map[string]bool // the Nodes with evidence, and perhaps some without
	lasting  int             // Nodes that are not being deleted
}

func newJudge(r Rules) judge {
	r.Times = cmp.Or(r.Times, Usual)
	return judge{rules: r, subjects: make(map[string]*subject), deleted: make(map[string]time.Time), suspects: make(map[string]bool)}
}

// begin begins a term. It drops all evidence, except for evidence against a deletion.
func (j *judge) begin(now time.Time) {
	j.began, j.last, j.identity, j.doubt, j.absentReady, j.since = now, time.Time{}, "", "", "", time.Time{}
	for _, s := range j.subjects {
		s.state, s.problem, s.gone, s.back, s.refuted = "", "", nil, time.Time{}, false
	}
}

// set adds or updates a Node.
func (j *judge) set(v subject, now time.Time) {
	s := j.subjects[v.name]
	if s != nil && s.uid != v.uid {
		j.remove(v.name, now, false)
		s = nil
	}
	if s != nil && s.id == v.id {
		v.outlived, v.back, v.refuted = s.outlived, s.back, s.refuted
		v.moved = s.moved || v.machine != "" && s.machine != "" && v.machine != s.machine
		v.machine = cmp.Or(v.machine, s.machine)
		if s.ready == v.ready {
			v.state, v.problem, v.gone = s.state, s.problem, s.gone
		} else if v.readinessChanged(s.gone); v.outlived {
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
		j.countDeletion(s, now, false)
	}
	j.subjects[v.name] = &v
}

// readinessChanged applies the evidence from before a Node became ready or unready. Earlier
// answers about the instance no longer count, but the time of the Lease's renewal does.
func (v *subject) readinessChanged(e *evidence) {
	switch {
	case e == nil:
	case v.ready && e.answers > 0:
		v.outlived = true
	default:
		v.gone = &evidence{first: e.first, last: e.last, read: e.read, lease: e.lease}
	}
}

// remove removes a Node. missed is set if the watch has missed the deletion, so that the Node
// may have become unready before it.
func (j *judge) remove(name string, now time.Time, missed bool) {
	s := j.subjects[name]
	if s == nil {
		return
	}
	if !s.deleting {
		j.countDeletion(s, now, missed)
		j.lasting--
	}
	delete(j.subjects, name)
	delete(j.suspects, name)
}

// countDeletion counts the deletion of an unready Node, because a leader may have made it.
func (j *judge) countDeletion(s *subject, now time.Time, missed bool) {
	if _, is := j.deleted[s.uid]; !is && (!s.ready || missed) {
		j.deleted[s.uid] = now
	}
}

// isGone reports whether an instance in this state counts as gone.
func isGone(s cloud.State) bool { return s == cloud.Terminated || s == cloud.Absent }

// isAlive reports whether the cloud shows an instance in this state, and not as terminated.
func isAlive(s cloud.State) bool { return s != "" && !isGone(s) }

// take applies the result of a round.
func (j *judge) take(r round) {
	j.last = r.at
	if j.doubt = r.failed; j.doubt == "" {
		j.doubt = j.discredit(r)
	}
	if j.doubt == "" {
		j.apply(r)
	}
	switch {
	case j.doubt == "" && j.absentReady == "":
		j.since = time.Time{}
	case j.since.IsZero():
		j.since = r.at
	}
}

// apply applies the answers of a credible round.
func (j *judge) apply(r round) {
	for name, a := range r.answers {
		if s := j.subjects[name]; s != nil && s.uid == a.uid {
			s.state, s.problem = a.instance.State, a.instance.Problem
		}
	}
	j.absentReady = ""
	for name, s := range j.subjects {
		if s.ready && !s.deleting && s.state == cloud.Absent && (j.absentReady == "" || name < j.absentReady) {
			j.absentReady = name
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
			s.showsAlive(a.instance.State, r.at, j.rules.Times)
		case s.deleting:
			s.gone = nil
		default:
			j.addEvidence(s, a, r.at, j.absentReady != "")
			j.suspects[name] = true
		}
	}
}

// addEvidence records an answer in which the instance is gone. If the answers seem incomplete, an
// absent instance may exist.
func (j *judge) addEvidence(s *subject, a answer, at time.Time, incomplete bool) {
	e, terminated := s.gone, a.instance.State == cloud.Terminated
	s.back, s.refuted = time.Time{}, false
	if s.moved {
		s.outlived, s.moved = true, false // the machine that uses the Node is not the instance
	}
	if e != nil && e.read && a.unread == nil && a.lease != "" && a.lease != e.lease {
		s.outlived = true // a renewed Lease proves that a kubelet uses the Node
	}
	switch {
	case a.unread != nil:
		if e == nil {
			e = &evidence{first: at, last: at}
		}
		e.unread = a.unread
	case e == nil, e.answers == 0, at.Sub(e.last) > j.rules.Times.Gap, a.lease != e.lease, terminated && !e.terminated,
		incomplete && !terminated && !e.terminated:
		e = &evidence{first: at, last: at, answers: 1, read: true, lease: a.lease, terminated: terminated}
	default:
		e.last, e.unread = at, nil
		e.answers++
	}
	s.gone = e
	if s.ready && e.lease == "" && e.read && e.isEnough(j.rules.Times.Enough) {
		s.outlived = true // without a Lease, only the condition can prove that a kubelet uses the Node
	}
}

// isEnough reports whether enough answers agree over a long enough time.
func (e *evidence) isEnough(long time.Duration) bool {
	return e.answers >= enoughAnswers && e.last.Sub(e.first) >= long
}

// discredit returns why a complete round is not credible, or "". A credible round shows instances
// of other Nodes of this cluster. Credentials of another account would show none.
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
		case s.outlived && a.instance.State == cloud.Terminated: // expected, and no evidence
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

// forget drops all evidence.
func (j *judge) forget() {
	for _, s := range j.subjects {
		s.gone, s.back, s.refuted = nil, time.Time{}, false
	}
}
