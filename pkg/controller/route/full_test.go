package route

import (
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/subnet"
)

// Fault 11: the controller knows the quota before the table is full.
func TestAFullTable(t *testing.T) {
	inLab(t, func(l *lab) {
		l.cloud.Do(func() { l.cloud.Quota = cloud.Quota{Most: subnet.Pair[int]{subnet.IPv4: 10}} })
		for i := range 6 {
			l.add(i)
		}
		l.Begin()
		l.Pass(time.Second)
		if u := l.report().Tables[0]; u.String() != "8 of 10 routes, 2 free" {
			t.Error(u)
		}
		for i := 6; i < 12; i++ {
			l.add(i)
		}
		l.Pass(10 * time.Second)
		for i := range 8 {
			l.wantRouted(i)
		}
		for i := 8; i < 12; i++ {
			l.wantCondition(i, unrouted)
			l.wantEvent(i, "has no room: 10 of 10 routes, 0 free; 4 waiting", "raise the quota")
		}
		if r := l.report(); r.Counts["table-full"] != 4 || len(r.Findings) != 4 {
			t.Errorf("%+v", r.Counts)
		}
		l.remove(0)
		l.Pass(7 * time.Minute)
		l.wantRouted(8)
		l.wantCondition(9, unrouted)
	})
}

// TestLearnsAnUnknownQuota: the controller learns an unknown quota from the cloud's refusals.
func TestLearnsAnUnknownQuota(t *testing.T) {
	inLab(t, func(l *lab) {
		l.cloud.Do(func() { l.cloud.Hidden = 7 })
		for i := range 20 {
			l.add(i)
		}
		l.Begin()
		l.Pass(time.Minute)
		routed := 0
		for i := range 20 {
			if l.Unavailable(nameOf(i)) == "False RouteCreated" {
				routed++
			}
		}
		// Some writes were in flight when the cloud first reported a table as full. They may
		// have filled the tables with the routes of different Nodes.
		if a, b := len(l.cloud.Targets("rtb-a")), len(l.cloud.Targets("rtb-b")); routed > 5 || a != 5 || b != 5 {
			t.Errorf("%d Nodes are routed, with %d and %d routes", routed, a, b)
		}
		// One route a minute is tried in each of the two tables.
		changes := len(l.cloud.Changes())
		l.Pass(time.Hour)
		if n := len(l.cloud.Changes()) - changes; n > 2*60 {
			t.Errorf("%d changes in an hour at two full tables", n)
		}
	})
}

// TestARaisedQuotaServesSoonWhateverThePeriod: while Nodes wait for room, the tables are read once a
// minute, and otherwise once a period.
func TestARaisedQuotaServesSoonWhateverThePeriod(t *testing.T) {
	for name, set := range map[string]func(l *lab, most int){
		"hidden": func(l *lab, most int) { l.cloud.Hidden = most },
		"known":  func(l *lab, most int) { l.cloud.Quota = cloud.Quota{Most: subnet.Pair[int]{subnet.IPv4: most}} },
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.cloud.Do(func() { set(l, 7) })
				for i := range 20 {
					l.add(i)
				}
				l.Begin()
				l.Pass(30 * time.Minute)
				if r := l.report(); r.Counts["table-full"] < 20-5 { // which Nodes wait is not certain
					t.Fatalf("%+v", r.Counts)
				}
				l.cloud.Do(func() { set(l, 500) })
				l.Pass(2*time.Minute + 10*time.Second)
				for i := range 20 {
					l.wantRouted(i)
				}
				reads := l.cloud.Reads()
				l.Pass(time.Hour)
				if n := l.cloud.Reads() - reads; n > 60/20+1 {
					t.Errorf("%d reads of the tables in an hour in which no Node waits", n)
				}
			}, func(o *Options) { o.Period = 20 * time.Minute })
		})
	}
}
