package lifecycle

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// machine is the true state of a Node, its kubelet and its instance.
type machine struct {
	name, uid string
	reused    bool // another machine has the name, and its kubelet uses the Node
	marked    bool // the Node has the Mark
	zone      int
	ended     time.Time // when its instance ended; zero is alive
	stopped   bool
	ready     bool // the Node's condition; false while the kubelet is cut off
	cut       bool // the kubelet cannot renew its Lease
	lease     int
}

// history is a cluster and a cloud with random events.
type history struct {
	*testing.T
	rnd      *rand.Rand
	judge    *judge // of the leader
	standby  *judge // of the other process
	audited  time.Time
	now      time.Time
	machines map[string]*machine
	made     int
	version  int

	weathers     []string
	weather      string    // the present fault of the cloud's answers
	until        time.Time // when the fault changes
	hidden       int       // the zone that the answers lack
	deletions    []time.Time
	deleted, all int
	reused       int
	rules        Rules
}

const zones = 3

func (h *history) show(m *machine) {
	h.version++
	for _, j := range []*judge{h.judge, h.standby} {
		j.set(subject{name: m.name, uid: m.uid, version: fmt.Sprint(h.version), id: "id-" + m.uid, ready: m.ready, marked: m.marked}, h.now)
	}
}

// process returns the judge of a new process.
func (h *history) process() *judge {
	j := newJudge(h.rules)
	j.watching = h.now
	for _, m := range h.machines {
		j.set(subject{name: m.name, uid: m.uid, version: "1", id: "id-" + m.uid, ready: m.ready, marked: m.marked}, h.now)
	}
	return &j
}

// elect begins a term of this process, or of another one. The new leader does not know which
// names are reused, unless the last one has written a Mark. The kubelets of the other reused
// names are at work then, so that the new leader can notice them.
func (h *history) elect() {
	switch h.rnd.IntN(8) {
	case 0:
		h.judge, h.standby = h.process(), h.process()
	case 1, 2:
		h.judge, h.standby = h.standby, h.process()
	case 3, 4, 5:
		h.judge, h.standby = h.standby, h.judge
	}
	h.judge.begin(h.now)
	h.audited = time.Time{}
	for _, m := range h.machines {
		if m.reused && !m.marked {
			m.cut, m.ready = false, true
			h.show(m)
		}
	}
}

// unnoticed reports whether a name is reused and the leader has not noticed it yet.
func (h *history) unnoticed(m *machine) bool {
	return m.reused && !h.judge.subjects[m.name].isHeld()
}

// mark writes the Marks of most Nodes that the leader holds.
func (h *history) mark() {
	for _, name := range slices.Sorted(maps.Keys(h.machines)) {
		if m := h.machines[name]; h.judge.subjects[name].outlived && !m.marked && h.rnd.IntN(4) > 0 {
			m.marked = true
			h.show(m)
		}
	}
}

func (h *history) launch() {
	h.made++
	m := &machine{name: fmt.Sprint("n", h.rnd.IntN(200)), zone: h.rnd.IntN(zones), ready: true} // names come back
	m.uid = fmt.Sprintf("%s-%d", m.name, h.made)
	if h.machines[m.name] == nil {
		h.machines[m.name] = m
		h.show(m)
	}
}

func (h *history) any() *machine {
	names := slices.Sorted(maps.Keys(h.machines))
	return h.machines[names[h.rnd.IntN(len(names))]]
}

// ended counts the machines whose instances have ended.
func (h *history) ended() (n int) {
	for _, m := range h.machines {
		if !m.ended.IsZero() {
			n++
		}
	}
	return n
}

// step makes one random event.
func (h *history) step() {
	m := h.any()
	if h.unnoticed(m) {
		return
	}
	switch h.rnd.IntN(14) {
	case 0, 1:
		h.launch()
	case 2: // an instance ends
		if m.ended.IsZero() {
			m.ended, m.ready, m.cut, m.stopped = h.now, false, true, false
			h.all++
		}
	case 3: // a network or a kubelet fails
		m.cut, m.ready = true, false
	case 4:
		m.ready = false // and its kubelet runs
	case 5: // a whole zone is cut off
		if h.rnd.IntN(10) == 0 {
			for _, other := range h.machines {
				if other.zone == m.zone && !h.unnoticed(other) {
					other.cut, other.ready = true, false
					h.show(other)
				}
			}
		}
	case 6, 7, 8:
		if m.ended.IsZero() {
			m.cut, m.ready, m.stopped = false, true, false
		}
	case 9:
		if m.ended.IsZero() {
			m.stopped, m.cut, m.ready = true, true, false
		}
	case 10, 11:
		if !m.ended.IsZero() && h.now.Sub(m.ended) > 2*time.Minute && (m.reused || h.rnd.IntN(2) == 0) {
			m.reused, m.cut, m.ready = true, false, true
			h.reused++
		}
	case 12: // a person does what the event says
		if m.marked {
			h.drain(m)
			return
		}
	}
	h.show(m)
}

// change changes the fault of the cloud's answers.
func (h *history) change() {
	if h.now.Before(h.until) {
		return
	}
	h.weather = h.weathers[h.rnd.IntN(len(h.weathers))]
	h.until = h.now.Add(time.Duration(h.rnd.IntN(50)) * time.Minute)
	h.hidden = h.rnd.IntN(zones)
}

// answer returns the cloud's answer about a machine.
func (h *history) answer(m *machine) answer {
	a := answer{uid: m.uid, instance: cloud.Instance{State: cloud.Running, Account: "1", Region: "r"}, lease: fmt.Sprint(m.lease)}
	switch {
	case h.weather == "elsewhere", h.weather == "flapping" && h.rnd.IntN(2) == 0:
		a.instance = cloud.Instance{State: cloud.Absent}
	case h.weather == "a zone is missing" && m.zone == h.hidden:
		a.instance = cloud.Instance{State: cloud.Absent}
	case !m.ended.IsZero() && h.now.Sub(m.ended) > 70*time.Minute:
		a.instance = cloud.Instance{State: cloud.Absent}
	case !m.ended.IsZero() && h.now.Sub(m.ended) > time.Minute:
		a.instance.State = cloud.Terminated
	case !m.ended.IsZero():
		a.instance.State = cloud.Terminating
	case m.stopped:
		a.instance.State = cloud.Stopped
	}
	if h.weather == "Leases fail" && h.rnd.IntN(2) == 0 {
		a.unread = errors.New("forbidden")
	}
	return a
}

// ask makes a round, and the deletions that are due.
func (h *history) ask() {
	r := round{at: h.now, answers: make(map[string]answer)}
	ready, whole := 0, h.now.Sub(h.audited) >= Usual.Audit
	for _, name := range slices.Sorted(maps.Keys(h.machines)) {
		m := h.machines[name]
		if m.ready && !whole && !isGone(h.judge.subjects[name].state) {
			if ready++; ready > vouching {
				continue
			}
		}
		r.answers[name] = h.answer(m)
	}
	if h.weather == "errors" && h.rnd.IntN(3) > 0 || h.weather == "a part" {
		r.failed, r.answers = "no answer", map[string]answer{}
	}
	h.judge.take(r)
	if whole && r.failed == "" {
		h.audited = h.now
	}
	for _, v := range h.judge.verdicts(h.now, 0) {
		if v.why == Due {
			h.delete(v)
		}
	}
}

// delete deletes a Node. It fails the test if the Node's machine is alive.
func (h *history) delete(v verdict) {
	m := h.machines[v.name]
	switch {
	case m == nil || m.uid != v.uid:
		h.Fatalf("%s is deleted, and is another Node now", v.name)
	case m.reused:
		h.Fatalf("%s is deleted, and a machine works under it: %s", v.name, v.text)
	case m.ended.IsZero():
		h.Fatalf("%s is deleted, and its instance lives: %s", v.name, v.text)
	case h.now.Sub(m.ended) < Usual.Enough:
		h.Fatalf("%s is deleted %s after its end", v.name, h.now.Sub(m.ended))
	}
	h.deletions = slices.DeleteFunc(h.deletions, func(at time.Time) bool { return h.now.Sub(at) >= time.Hour })
	if limit := max(1, (len(h.machines)+len(h.deletions))/20); len(h.deletions) >= limit {
		h.Fatalf("%d of %d Nodes are deleted within an hour", len(h.deletions)+1, len(h.machines))
	}
	h.deletions = append(h.deletions, h.now)
	delete(h.machines, v.name)
	h.judge.remove(v.name, h.now, false)
	h.standby.remove(v.name, h.now, false)
	h.deleted++
}

// drain deletes a Node, as a person does.
func (h *history) drain(m *machine) {
	delete(h.machines, m.name)
	h.judge.remove(m.name, h.now, false)
	h.standby.remove(m.name, h.now, false)
}

// pass advances the clock by a minute: kubelets renew their Leases, and the leader makes a round.
func (h *history) pass() {
	h.now = h.now.Add(time.Minute)
	for _, m := range h.machines {
		if !m.cut {
			m.lease++
		}
	}
	h.ask()
	h.mark()
}

// TestNoHistoryDeletesALivingNode makes random events of instances, kubelets, the cloud's answers
// and the controller. No Node with a living instance is deleted, and no more Nodes than the limit
// allows. Once the cloud answers again, every Node whose instance has ended is deleted.
func TestNoHistoryDeletesALivingNode(t *testing.T) {
	usual := []string{"", "", "", "errors", "elsewhere", "elsewhere", "a part", "Leases fail"}
	for name, cloud := range map[string]struct {
		remembers time.Duration
		weathers  []string
	}{
		"a cloud that shows terminated instances": {time.Hour, append(usual, "a zone is missing", "flapping")},
		"a cloud that forgets them at once":       {0, usual},
	} {
		t.Run(name, func(t *testing.T) {
			deleted, reused := 0, 0
			for seed := range uint64(8) {
				h := &history{
					T: t, rnd: rand.New(rand.NewPCG(seed, 16)), rules: Rules{Limit: 5, Remembers: cloud.remembers},
					now: start, machines: make(map[string]*machine), weathers: cloud.weathers,
				}
				h.run()
				deleted += h.deleted
				reused += h.reused
			}
			if deleted < 120 {
				t.Errorf("only %d Nodes were deleted", deleted)
			}
			if reused < 20 {
				t.Errorf("only %d names went to other machines", reused)
			}
		})
	}
}

// run advances the clock by ten hours with faults, and then by a day and a half without.
func (h *history) run() {
	h.judge, h.standby = h.process(), h.process()
	h.judge.begin(h.now)
	for range 10 + h.rnd.IntN(40) {
		h.launch()
	}
	for range 600 {
		h.change()
		for range h.rnd.IntN(3) {
			h.step()
		}
		if h.rnd.IntN(60) == 0 {
			h.elect()
		}
		h.pass()
	}
	h.weather, h.until = "", h.now.Add(1000*time.Hour)
	for range 36 * 60 {
		for _, m := range h.machines {
			if m.ended.IsZero() && !m.ready && h.rnd.IntN(30) == 0 {
				m.cut, m.ready, m.stopped = false, true, false
				h.show(m)
			}
		}
		if 3*h.ended() >= len(h.machines) { // or most are gone at once
			h.launch()
		}
		for _, m := range h.machines {
			if m.reused && !h.unnoticed(m) { // a person does what the event says
				h.drain(m)
			}
		}
		h.pass()
	}
	for _, m := range h.machines {
		if !m.ended.IsZero() && h.now.Sub(m.ended) > 36*time.Hour && !h.judge.subjects[m.name].isHeld() {
			h.Errorf("%s ended %s ago, and is there: %+v", m.name, h.now.Sub(m.ended), h.judge.subjects[m.name])
		}
	}
}
