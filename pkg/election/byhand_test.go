package election

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// set writes the spec of the Lease without the server's checks.
func (l *lab) set(spec map[string]any) {
	l.f.Do(func() { l.f.ChangeObject("MODIFIED", path, map[string]any{"metadata": map[string]any{}, "spec": spec}) })
}

// remove deletes the Lease.
func (l *lab) remove() {
	l.f.Do(func() { l.f.ChangeObject("DELETED", path, l.f.Stored(path)) })
}

// TestDeletedLeaseKeepsItsLeader: a leader re-creates its Lease at once. A leader that is
// cut off is replaced, but not before its term ends.
func TestDeletedLeaseKeepsItsLeader(t *testing.T) {
	for _, dead := range []bool{false, true} {
		t.Run(fmt.Sprint("dead ", dead), func(t *testing.T) {
			inLab(t, func(l *lab) {
				all := l.many(4)
				leader, _ := l.leads(time.Second, all...)
				l.wait(time.Minute + time.Second)
				if dead {
					leader.cutOff()
				}
				l.remove()
				if !dead {
					l.wait(0)
					if spec := l.spec(); spec["holderIdentity"] != leader.identity {
						t.Errorf("the Lease is %v", spec)
					}
					l.wait(time.Minute)
					if n := len(l.terms.all()); n != 1 || !leader.Status().Leading {
						t.Errorf("%d terms", n)
					}
					return
				}
				_, took := l.leads(30*time.Second, without(all, leader)...)
				if took < 15*time.Second || took > 24*time.Second {
					t.Errorf("took %s", took)
				}
				if last := l.terms.all()[1]; last.Clean || last.Number != 1 {
					t.Errorf("%+v", last.Term)
				}
			})
		})
	}
}

// TestRemovedHolderStopsFirst: an operator who removes the holder by hand ends its
// term. The next one begins when the Lease would have ended, and is not clean.
func TestRemovedHolderStopsFirst(t *testing.T) {
	inLab(t, func(l *lab) {
		all := l.many(3)
		leader, _ := l.leads(time.Second, all...)
		l.wait(time.Minute + time.Second)
		spec := l.spec()
		spec["holderIdentity"] = ""
		l.set(spec)
		l.wait(0)
		if n := leading(all); n != 0 || leader.Status().Leading {
			t.Errorf("%d lead", n)
		}
		if _, took := l.leads(20*time.Second, all...); took < 14*time.Second {
			t.Errorf("took %s", took)
		}
		if last := l.terms.all()[1]; last.Clean {
			t.Error("clean")
		}
	})
}

// TestForeignLeaseIsTakenOverWhenItExpires writes Leases as another program or an attacker
// may. A replica leads after the duration in the Lease, and not earlier.
func TestForeignLeaseIsTakenOverWhenItExpires(t *testing.T) {
	const at = "2026-01-02T03:04:05.000006Z"
	usual := 15 * time.Second
	for name, c := range map[string]struct {
		spec  map[string]any
		after time.Duration
		clean bool
	}{
		"empty":                      {map[string]any{}, 0, true},
		"released by client-go":      {map[string]any{"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": at, "leaseTransitions": 4}, 0, true},
		"of a dead one":              {map[string]any{"holderIdentity": "x", "leaseDurationSeconds": 30, "renewTime": "1999-01-02T03:04:05.000006Z"}, 30 * time.Second, false},
		"renewed in the future":      {map[string]any{"holderIdentity": "x", "leaseDurationSeconds": 15, "renewTime": "2199-01-02T03:04:05.000006Z"}, usual, false},
		"without a duration":         {map[string]any{"holderIdentity": "x"}, usual, false},
		"with a negative duration":   {map[string]any{"holderIdentity": "x", "leaseDurationSeconds": -7}, usual, false},
		"with times that are none":   {map[string]any{"holderIdentity": "x", "leaseDurationSeconds": 15, "renewTime": "yesterday", "acquireTime": ""}, usual, false},
		"with the last number":       {map[string]any{"holderIdentity": "x", "leaseDurationSeconds": 15, "leaseTransitions": 1<<31 - 1}, usual, false},
		"with a number beyond":       {map[string]any{"holderIdentity": "x", "leaseDurationSeconds": 15, "leaseTransitions": int64(1) << 62}, usual, false},
		"with a negative number":     {map[string]any{"holderIdentity": "x", "leaseDurationSeconds": 15, "leaseTransitions": -3}, usual, false},
		"with an identity like ours": {map[string]any{"holderIdentity": "host-0", "leaseDurationSeconds": 15}, usual, false},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				c.spec["strategy"] = "kept"
				l.set(c.spec)
				_, took := l.leads(time.Minute, l.many(3)...)
				if late := took - c.after; late < 0 || late > 2500*time.Millisecond {
					t.Errorf("took %s, want %s", took, c.after)
				}
				if first := l.terms.all()[0]; first.Clean != c.clean || first.Number < 0 || first.Number > 5 {
					t.Errorf("%+v", first.Term)
				}
				if l.spec()["strategy"] != "kept" {
					t.Errorf("%v", l.spec())
				}
			})
		})
	}
}

// TestUnreadableLeaseIsLeftAlone: replicas neither take nor change a Lease that they
// cannot read. They report it, and elect a leader once they can read it.
func TestUnreadableLeaseIsLeftAlone(t *testing.T) {
	for name, spec := range map[string]any{
		"text": "rubbish", "holder": map[string]any{"holderIdentity": map[string]any{}}, "number": map[string]any{"leaseDurationSeconds": 1e99},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.f.Do(func() { l.f.ChangeObject("MODIFIED", path, map[string]any{"spec": spec}) })
				all := l.many(2)
				l.wait(5 * time.Minute)
				if n := leading(all); n != 0 || l.f.Asked("P") > 0 || all[0].Status().Failing == nil || all[0].Status().Known {
					t.Errorf("%d lead, %d writes: %+v", n, l.f.Asked("P"), all[0].Status())
				}
				l.set(map[string]any{})
				l.leads(5*time.Second, all...)
			})
		})
	}
}

// TestForeignEditsAreKept: a label that a person puts on the Lease neither ends a term
// nor is lost, and is no sign of life of a dead leader.
func TestForeignEditsAreKept(t *testing.T) {
	inLab(t, func(l *lab) {
		all := l.many(2)
		leader, _ := l.leads(time.Second, all...)
		label := func(value string) {
			l.f.Do(func() {
				o := l.f.Stored(path)
				o["metadata"].(map[string]any)["labels"] = map[string]any{"a": value}
				l.f.ChangeObject("MODIFIED", path, o)
			})
		}
		l.wait(time.Minute + time.Second)
		label("b")
		l.wait(time.Minute)
		if labels, _ := l.f.Object(path)["metadata"].(map[string]any)["labels"].(map[string]any); labels["a"] != "b" || !leader.Status().Leading || len(l.terms.all()) != 1 {
			t.Errorf("%v, %d terms", labels, len(l.terms.all()))
		}
		leader.cutOff()
		took := time.Duration(0)
		for ; leading(without(all, leader)) == 0 && took < time.Minute; took += time.Second {
			label(fmt.Sprint(took))
			l.wait(time.Second)
		}
		if took > 18*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

// TestUnsafeDurationsAreRefused: New refuses durations with which two replicas could lead.
func TestUnsafeDurationsAreRefused(t *testing.T) {
	valid := Options{Client: &kube.Client{}, Namespace: "a", Name: "b", Identity: "c"}
	if e, err := New(valid); err != nil || e.options.LeaseDuration != 15*time.Second || e.options.RenewDeadline != 10*time.Second || e.options.RetryPeriod != 2*time.Second {
		t.Errorf("%v", err)
	}
	for name, change := range map[string]func(o *Options){
		"no identity": func(o *Options) { o.Identity = "" }, "no name": func(o *Options) { o.Name = "" }, "no namespace": func(o *Options) { o.Namespace = "" },
		"a deadline as late as the lease's end": func(o *Options) { o.RenewDeadline = 15 * time.Second },
		"too few retries":                       func(o *Options) { o.RetryPeriod = 9 * time.Second },
		"part of a second":                      func(o *Options) { o.LeaseDuration = 15500 * time.Millisecond },
		"less than a second": func(o *Options) {
			o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = -15*time.Second, -20*time.Second, -30*time.Second
		},
	} {
		o := valid
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestMissingNamespaceIsReported: replicas whose Lease cannot be created report why, and
// do not try in a hot loop.
func TestMissingNamespaceIsReported(t *testing.T) {
	for _, code := range []int32{http.StatusNotFound, http.StatusForbidden, http.StatusConflict} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.f.Refuse = func(r *http.Request) *metav1.Status {
					if r.Method == http.MethodPost {
						return apitest.Refusal(code, "no")
					}
					return nil
				}
				r := l.replica("only", nil)
				l.wait(time.Minute)
				if n := l.f.Asked("POST"); n > 150 || kube.Code(r.Status().Failing) != int(code) && code != http.StatusConflict {
					t.Errorf("%d requests: %+v", n, r.Status())
				}
				l.f.Do(func() { l.f.Refuse = nil })
				l.leads(5*time.Second, r)
			})
		})
	}
}

// TestReleaseCreatesNoLease: a leader that ends after its Lease was deleted does not
// create a released one, which another replica would take at once.
func TestReleaseCreatesNoLease(t *testing.T) {
	inLab(t, func(l *lab) {
		r := l.replica("only", nil)
		l.leads(time.Second, r)
		l.wait(time.Minute)
		l.f.Do(func() {
			l.f.Refuse = func(r *http.Request) *metav1.Status {
				if r.Method == http.MethodPost {
					return apitest.Refusal(http.StatusInternalServerError, "no")
				}
				return nil
			}
		})
		l.remove()
		l.wait(0)
		l.f.Do(func() { l.f.Refuse = nil })
		r.stop()
		if o := l.f.Object(path); o != nil {
			t.Errorf("%v", o)
		}
	})
}
