package lifecycle

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
)

var start = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// court is a judge of ready Nodes w0, w1 and so on, and of unready Nodes d0, d1 and so on.
type court struct {
	*testing.T
	judge
	now    time.Time
	states map[string]cloud.State
	leases map[string]string
	unread map[string]error
	region string
}

func newCourt(t *testing.T, ready, unready int) *court {
	c := &court{
		T: t, judge: newJudge(Rules{Limit: 5, LimitName: "--node-deletion-limit", Remembers: time.Hour}), now: start,
		states: make(map[string]cloud.State), leases: make(map[string]string), unread: make(map[string]error), region: "r-1",
	}
	for i := range ready {
		c.add(fmt.Sprint("w", i), true)
	}
	for i := range unready {
		name := fmt.Sprint("d", i)
		c.add(name, false)
		c.states[name] = cloud.Terminated
	}
	c.begin(start)
	c.watching = start.Add(-Usual.Hour)
	return c
}

func (c *court) set(v subject) { c.judge.set(v, c.now) }

func (c *court) add(name string, ready bool) {
	c.set(subject{name: name, uid: "uid-" + name, version: "1", id: "id-" + name, ready: ready})
	c.states[name] = cloud.Running
}

// ask makes a round about all Nodes. f may change it.
func (c *court) ask(f ...func(*round)) {
	r := round{at: c.now, answers: make(map[string]answer)}
	for name, s := range c.subjects {
		a := answer{uid: s.uid, instance: cloud.Instance{State: c.states[name], Account: "1", Region: c.region}}
		if isGone(a.instance.State) {
			a.instance.Account, a.instance.Region = "", ""
			a.lease, a.unread = c.leases[name], c.unread[name]
		}
		r.answers[name] = a
	}
	for _, change := range f {
		change(&r)
	}
	c.take(r)
}

// minutes makes a round each minute.
func (c *court) minutes(n int, f ...func(*round)) {
	for range n {
		c.now = c.now.Add(time.Minute)
		c.ask(f...)
	}
}

// failed makes a round fail.
func failed(r *round) { r.failed, r.answers = "no answer", map[string]answer{} }

// elsewhere makes a round one with the credentials of another account.
func elsewhere(r *round) {
	for name, a := range r.answers {
		a.instance = cloud.Instance{State: cloud.Absent}
		r.answers[name] = a
	}
}

// why returns the verdict of a Node.
func (c *court) why(name string) (Why, string) {
	for _, v := range c.verdicts(c.now, 0) {
		if v.name == name {
			return v.why, v.text
		}
	}
	return "", ""
}

// want fails unless d0 has this verdict, and its text has these parts.
func (c *court) want(want Why, parts ...string) {
	c.Helper()
	why, text := c.why("d0")
	if why != want {
		c.Errorf("%s: d0 is %q (%s), want %q", c.now.Sub(start), why, text, want)
	}
	for _, p := range parts {
		if !strings.Contains(text, p) {
			c.Errorf("%q lacks %q", text, p)
		}
	}
}

// TestDeletesAfterAgreeingAnswers: a Node is deleted after five minutes of agreeing answers, and
// not earlier.
func TestDeletesAfterAgreeingAnswers(t *testing.T) {
	c := newCourt(t, 3, 1)
	c.want("")
	c.ask()
	c.want(Observed, "terminated", "1 answer since 03:00:00 UTC")
	c.minutes(4)
	c.want(Observed)
	c.minutes(1)
	c.want(Due, "terminated", "6 answers")
}

// TestFewAnswersDoNotSuffice: a few answers are not enough, however long they agree.
func TestFewAnswersDoNotSuffice(t *testing.T) {
	c := newCourt(t, 3, 1)
	for range 4 {
		c.now = c.now.Add(Usual.Gap)
		c.ask()
		c.want(Observed)
	}
	c.now = c.now.Add(Usual.Gap)
	c.ask()
	c.want(Due)
}

// TestDoubts shows the effect of each doubt on the count.
func TestDoubts(t *testing.T) {
	for name, c := range map[string]struct {
		doubt func(c *court)
		at    Why // right after the doubt
		later Why // after five more minutes of agreeing answers
		parts []string
	}{
		"an error":        {func(c *court) { c.minutes(1, failed) }, Doubted, Due, []string{"no answer"}},
		"long ones":       {func(c *court) { c.minutes(6, failed); c.minutes(1) }, Observed, Due, nil},
		"no answers":      {func(c *court) { c.now = c.now.Add(time.Hour) }, Doubted, Due, []string{"is of 03:06:00 UTC"}},
		"another account": {func(c *court) { c.minutes(1, elsewhere) }, "", Due, nil},
		"another region":  {func(c *court) { c.region = "r-2"; c.minutes(1) }, Observed, Due, nil},
		"the instance was seen": {func(c *court) {
			c.states["d0"] = cloud.Stopped
			c.minutes(1)
		}, "", "", nil},
		"the Node was ready": {func(c *court) {
			c.set(subject{name: "d0", uid: "uid-d0", version: "2", id: "id-d0", ready: true})
			c.want(Outlived, "belongs to another machine")
			c.set(subject{name: "d0", uid: "uid-d0", version: "3", id: "id-d0"})
			c.minutes(1)
		}, Outlived, Outlived, []string{`providerID "id-d0"`, "delete the Node, and restart its kubelet"}},
		"the Node was ready, and a term passed": {func(c *court) {
			c.set(subject{name: "d0", uid: "uid-d0", version: "2", id: "id-d0", ready: true})
			c.set(subject{name: "d0", uid: "uid-d0", version: "3", id: "id-d0"})
			c.begin(c.now)
		}, Outlived, Outlived, nil},
		"the instance is there after all": {func(c *court) {
			c.leases["d0"] = "later"
			c.minutes(1)
			c.want(Outlived)
			c.states["d0"] = cloud.Running
			c.minutes(5)
			c.want(Outlived) // one answer may be wrong, too
			c.minutes(1)
			c.want("")
			c.states["d0"] = cloud.Terminated
		}, "", Due, nil},
		"another Node of the name": {func(c *court) { c.set(subject{name: "d0", uid: "uid-other", version: "1", id: "id-other"}) }, "", Limited, nil}, // the first one counts
		"the Lease is renewed":     {func(c *court) { c.leases["d0"] = "later"; c.minutes(1) }, Outlived, Outlived, nil},
		"the Lease is renewed each minute": {func(c *court) {
			c.leases["d0"] = c.now.String()
			c.minutes(1)
			c.leases["d0"] = c.now.String()
			c.minutes(1)
		}, Outlived, Outlived, nil},
		"the Lease is deleted": {func(c *court) {
			c.leases["d0"] = "first"
			c.minutes(1)
			c.set(subject{name: "d0", uid: "uid-other", version: "1", id: "id-other"})
			c.minutes(1)
			c.leases["d0"] = ""
			c.minutes(1)
		}, Observed, Limited, nil},
		"the Lease cannot be read": {func(c *court) { c.unread["d0"] = errors.New("forbidden"); c.minutes(1) }, Unread, Unread, []string{"forbidden", "leases"}},
		"a new term":               {func(c *court) { c.begin(c.now); c.minutes(1) }, Observed, Due, nil},
		"an unknown state": {func(c *court) {
			c.states["d0"] = ""
			c.minutes(1)
		}, "", "", nil},
		"a Node that is being deleted": {func(c *court) {
			c.set(subject{name: "d0", uid: "uid-d0", version: "2", id: "id-d0", deleting: true})
			c.minutes(1)
		}, "", "", nil},
		"half of the ready Nodes are gone, too": {func(c *court) {
			c.states["w0"], c.states["w1"] = cloud.Terminated, cloud.Absent
			c.minutes(1)
		}, "", "", nil},
		"one ready Node is gone, too": {func(c *court) { c.states["w0"] = cloud.Terminated; c.minutes(1) }, Due, Due, nil},
	} {
		t.Run(name, func(t *testing.T) {
			court := newCourt(t, 4, 1)
			court.ask()
			court.minutes(6)
			court.want(Due)
			c.doubt(court)
			court.want(c.at, c.parts...)
			court.minutes(6)
			court.want(c.later)
		})
	}
}

// TestAnAbsentInstanceWaitsLonger: if an instance is absent and was never shown as terminated, its
// Node stays for as long as the cloud shows terminated instances.
func TestAnAbsentInstanceWaitsLonger(t *testing.T) {
	c := newCourt(t, 3, 1)
	c.states["d0"] = cloud.Absent
	c.minutes(10)
	c.want(Vanished, "no instance since 03:01:00 UTC", "1h0m0s", "at 04:01:00 UTC")
	c.minutes(50)
	c.want(Vanished)
	c.minutes(1)
	c.want(Due)

	c.states["d0"] = cloud.Terminated // the cloud shows it after all
	c.minutes(1)
	c.want(Observed)

	c = newCourt(t, 3, 1)
	c.minutes(2)
	c.states["d0"] = cloud.Absent // forgotten
	c.minutes(4)
	c.want(Due)

	c = newCourt(t, 3, 1)
	c.rules.Remembers = 0
	c.states["d0"] = cloud.Absent
	c.minutes(6)
	c.want(Due)
}

// TestMostNodesAreNotDeleted: if most Nodes seem to be gone, none is deleted.
func TestMostNodesAreNotDeleted(t *testing.T) {
	c := newCourt(t, 3, 4)
	c.minutes(6)
	c.want(Most, "4 of 7", "delete the Nodes yourself")
	c.add("w3", true)
	c.minutes(1)
	c.want(Due)

	c = newCourt(t, 0, 3)
	c.minutes(6)
	if c.doubt == "" || len(c.verdicts(c.now, 0)) != 0 {
		t.Errorf("no Node vouches: %q, %v", c.doubt, c.verdicts(c.now, 0))
	}
	// An unready Node with an instance shows that the account is right.
	c.add("other", false)
	c.add("other2", false)
	c.add("other3", false)
	c.minutes(6)
	c.want(Due)
}

// TestTheLimitOfAnHour: within the limit of an hour, Nodes are deleted in the order in which their
// instances were first seen as gone.
func TestTheLimitOfAnHour(t *testing.T) {
	due := func(c *court, inFlight int) (names []string) {
		for _, v := range c.verdicts(c.now, inFlight) {
			if v.why == Due {
				names = append(names, v.name)
			}
		}
		return names
	}
	for _, test := range []struct {
		ready, unready, limit, inFlight int
		want                            []string
	}{
		{3, 2, 5, 0, []string{"d0"}}, // at least one
		{3, 2, 5, 1, nil},
		{35, 5, 5, 0, []string{"d0", "d1"}},
		{35, 5, 10, 1, []string{"d0", "d1", "d2"}},
		{35, 3, 100, 0, []string{"d0", "d1", "d2"}},
		{35, 3, 0, 0, nil},
	} {
		c := newCourt(t, test.ready, test.unready)
		c.rules.Limit = test.limit
		c.minutes(6)
		if got := due(c, test.inFlight); !slices.Equal(got, test.want) {
			t.Errorf("%+v: %q", test, got)
		}
	}
	c := newCourt(t, 10, 3)
	c.minutes(6)
	for i := range 3 {
		want := []string{fmt.Sprint("d", i)}
		if got := due(c, 0); !slices.Equal(got, want) {
			t.Fatalf("after %d: %q", i, got)
		}
		c.remove(want[0], c.now, false)
		c.minutes(59)
		if got := due(c, 0); len(got) > 0 {
			t.Errorf("%q within the hour", got)
		}
		if why, text := c.why("d2"); i == 1 && (why != Limited || !strings.Contains(text, "--node-deletion-limit=5%")) {
			t.Errorf("d2 is %s: %s", why, text)
		}
		c.minutes(1)
	}
}
