package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/controller/lifecycle"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// trouble is something that goes wrong, and the function that ends it, or nil.
type trouble struct {
	what  string
	often int
	begin func() (end func())
}

// storm makes things go wrong for a while, several at once.
func (w *soakWorld) storm(d time.Duration) {
	all := slices.Concat(w.cloudTroubles(), w.serverTroubles(), w.routeTroubles(), w.machineTroubles())
	for i := range all {
		all[i].often *= 6 // a replica deletes no Node before it has watched for a while
	}
	all = append(all, w.replicaTroubles()...)
	sum := 0
	for _, v := range all {
		sum += v.often
	}
	type ending struct {
		at   time.Time
		what string
		end  func()
	}
	var endings []ending
	for until := time.Now().Add(d); time.Now().Before(until) && !w.t.Failed(); {
		n := w.rnd.IntN(sum)
		for _, v := range all {
			if n -= v.often; n >= 0 {
				continue
			}
			if slices.ContainsFunc(endings, func(e ending) bool { return e.what == v.what }) {
				break
			}
			w.Do(func() { w.done[v.what]++ })
			if end := v.begin(); end != nil {
				endings = append(endings, ending{time.Now().Add(time.Duration(1+w.rnd.IntN(20)) * time.Second), v.what, end})
			}
			break
		}
		w.wait(time.Duration(200+w.rnd.IntN(2500)) * time.Millisecond)
		endings = slices.DeleteFunc(endings, func(e ending) bool {
			if time.Now().Before(e.at) {
				return false
			}
			e.end()
			return true
		})
	}
	for _, e := range endings {
		e.end()
	}
}

// wait lets time pass.
func (w *soakWorld) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.over:
	}
}

// chance returns a function that reports true so many times in a hundred.
func (w *soakWorld) chance(percent int) func() bool {
	var mu sync.Mutex
	seed := w.rnd.Uint32()
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		seed = seed*1664525 + 1013904223
		return int(seed>>16)%100 < percent
	}
}

// inject makes a part of all calls to the cloud fail.
func (w *soakWorld) inject(what string, percent int, f awstest.Fault) trouble {
	return trouble{what, 2, func() func() {
		strikes := w.chance(percent)
		f.When = func(awstest.Call) bool { return strikes() }
		end := w.aws.Inject(f)
		return func() { end() }
	}}
}

// set changes the settings of the cloud for a while.
func (w *soakWorld) set(what string, change func(*awstest.Settings)) trouble {
	return trouble{what, 2, func() func() {
		w.aws.Set(change)
		return func() {
			w.aws.Set(func(s *awstest.Settings) {
				s.RoutesPerTable, s.Lag, s.LagWrites, s.Page = 500, 0, false, 7
				s.Latency = map[string]time.Duration{"": 20 * time.Millisecond}
			})
		}
	}}
}

// key changes the credentials for a while.
func (w *soakWorld) key(what string, change func(*awstest.Key)) trouble {
	return trouble{what, 2, func() func() {
		w.aws.ChangeKey(change)
		return func() { w.aws.SetKey(awstest.Key{ID: awstest.AccessKey, Secret: awstest.SecretKey}) }
	}}
}

func (w *soakWorld) cloudTroubles() []trouble {
	internal := &awstest.Error{Status: 500, Code: "InternalError", Message: "an internal error"}
	return []trouble{
		w.inject("throttled", 60, awstest.Fault{Answer: awstest.Throttled}),
		w.inject("500", 50, awstest.Fault{Answer: internal}),
		w.inject("answers lost", 40, awstest.Fault{Lose: true}),
		w.inject("connections reset", 40, awstest.Fault{Reset: true}),
		w.inject("half answers", 40, awstest.Fault{Half: true}),
		w.inject("slow", 30, awstest.Fault{Delay: 3 * time.Second}),
		w.inject("hanging", 10, awstest.Fault{Hang: true, Done: true}),
		w.set("late reads", func(s *awstest.Settings) { s.Lag = 4 * time.Second }),
		w.set("late everything", func(s *awstest.Settings) { s.Lag, s.LagWrites = 2*time.Second, true }),
		w.set("full tables", func(s *awstest.Settings) { s.RoutesPerTable = soakNodes / 2 }),
		w.set("small pages", func(s *awstest.Settings) { s.Page = 5 }),
		w.key("credentials revoked", func(k *awstest.Key) { k.Refused = awstest.AuthFailure }),
		w.key("another account", func(k *awstest.Key) { k.Account = "999999999999" }),
		w.key("no permission to read", func(k *awstest.Key) { k.Denied = map[string]bool{"DescribeInstances": true} }),
		w.key("no permission to write", func(k *awstest.Key) { k.Denied = map[string]bool{"CreateRoute": true, "ReplaceRoute": true} }),
	}
}

// refuse makes the API server refuse a part of the program's requests for a while.
func (w *soakWorld) refuse(what string, percent int, code, after int32) trouble {
	return trouble{what, 2, func() func() {
		strikes := w.chance(percent)
		w.Do(func() {
			w.Refuse = func(*http.Request) *metav1.Status {
				if !strikes() {
					return nil
				}
				s := apitest.Refusal(code, "refused by the test")
				s.Details = &metav1.StatusDetails{RetryAfterSeconds: after}
				return s
			}
		})
		return func() { w.Do(func() { w.Refuse = nil }) }
	}}
}

func (w *soakWorld) serverTroubles() []trouble {
	return []trouble{
		{"watches cut", 2, func() func() { w.Cut(); return nil }},
		{"connections cut", 2, func() func() { w.Disconnect(); return nil }},
		{"history gone", 2, func() func() { w.Do(func() { w.Forget(); w.End() }); return nil }},
		w.refuse("503", 60, http.StatusServiceUnavailable, 1),
		w.refuse("429", 40, http.StatusTooManyRequests, 1),
		w.refuse("409", 30, http.StatusConflict, 0),
		{"API server restarted", 2, func() func() {
			w.Do(func() {
				w.Refuse = func(*http.Request) *metav1.Status { return apitest.Refusal(http.StatusServiceUnavailable, "it starts") }
				w.End()
			})
			w.Disconnect()
			w.wait(2 * time.Second)
			w.Do(func() { w.Refuse = nil; w.Forget() })
			return nil
		}},
		{"answers of the API server lost", 2, func() func() {
			strikes := w.chance(30)
			w.Do(func() {
				w.Lose = func(r *http.Request) bool { return r.Method != http.MethodGet && strikes() }
			})
			return func() { w.Do(func() { w.Lose = nil }) }
		}},
		{"Leases of kubelets unreadable", 2, func() func() {
			w.Do(func() {
				w.Refuse = func(r *http.Request) *metav1.Status {
					if strings.Contains(r.URL.Path, leaseNamespace) {
						return apitest.Refusal(http.StatusForbidden, "forbidden by the test")
					}
					return nil
				}
			})
			return func() { w.Do(func() { w.Refuse = nil }) }
		}},
	}
}

// cidrs returns the podCIDRs of all Nodes.
func (w *soakWorld) cidrs() (all []string) {
	w.Do(func() {
		for _, name := range slices.Sorted(maps.Keys(w.Nodes)) {
			all = append(all, w.Nodes[name].Spec.PodCIDRs...)
		}
	})
	return all
}

func (w *soakWorld) routeTroubles() []trouble {
	pick := func() (table, cidr string, ok bool) {
		all := w.cidrs()
		if len(all) == 0 {
			return "", "", false
		}
		return w.tables[w.rnd.IntN(len(w.tables))], all[w.rnd.IntN(len(all))], true
	}
	return []trouble{
		{"route removed by hand", 3, func() func() {
			if table, cidr, ok := pick(); ok {
				w.aws.SetRoute(table, cidr, "")
			}
			return nil
		}},
		{"route taken by hand", 3, func() func() {
			table, cidr, ok := pick()
			if !ok {
				return nil
			}
			// Not into the list of those that must stay: it is given back.
			w.aws.SetRoute(table, cidr, w.stranger)
			return func() { w.aws.SetRoute(table, cidr, "") }
		}},
		{"foreign route added", 1, func() func() {
			table, to := w.tables[w.rnd.IntN(len(w.tables))], fmt.Sprintf("10.201.%d.0/24", w.rnd.IntN(50))
			w.aws.SetRoute(table, to, w.stranger)
			w.Do(func() { w.foreign[table+" "+to] = w.stranger })
			return nil
		}},
	}
}

// any returns a machine for which is reports true, or nil.
func (w *soakWorld) any(is func(*machine) bool) (m *machine) {
	w.Do(func() {
		var all []*machine
		for _, name := range slices.Sorted(maps.Keys(w.machines)) {
			if is(w.machines[name]) {
				all = append(all, w.machines[name])
			}
		}
		if len(all) > 0 {
			m = all[w.rnd.IntN(len(all))]
		}
	})
	return m
}

// of returns a trouble of a machine, if there is one for which is reports true.
func (w *soakWorld) of(what string, often int, is func(*machine) bool, begin func(*machine) func()) trouble {
	return trouble{what, often, func() func() {
		if m := w.any(is); m != nil {
			return begin(m)
		}
		return nil
	}}
}

func (w *soakWorld) lives(m *machine) bool { return w.ended[m.at.ID].IsZero() }

// end ends the instance of a machine, unless too many Nodes would wait for their deletion.
func (w *soakWorld) end(m *machine, how func(ids ...string)) {
	few := false
	w.Do(func() {
		dead := 0
		for name, n := range w.Nodes {
			if w.machines[name] == nil || !w.ended[instanceOf(n)].IsZero() {
				dead++
			}
		}
		if few = dead < 8; few {
			w.ended[m.at.ID] = time.Now()
		}
	})
	if few {
		how(m.at.ID)
	}
}

func (w *soakWorld) machineTroubles() []trouble {
	runs := func(m *machine) bool { return w.lives(m) && !m.stopped }
	return []trouble{
		{"machine launched", 3, func() func() {
			few := false
			w.Do(func() { few = len(w.Nodes) < soakNodes+6 })
			if few {
				w.launch("")
			}
			return nil
		}},
		w.of("machine terminated", 6, w.lives, func(m *machine) func() { w.end(m, w.aws.Terminate); return nil }),
		w.of("machine vanished", 1, w.lives, func(m *machine) func() { w.end(m, w.aws.Vanish); return nil }),
		w.of("machine stopped", 2, runs, func(m *machine) func() {
			w.Do(func() {
				m.stopped = true
				if w.Nodes[m.name] != nil {
					w.ready(m.name, corev1.ConditionUnknown)
				}
			})
			w.aws.Stop(m.at.ID)
			return func() { w.start(m) }
		}),
		w.of("machine cut off", 3, runs, func(m *machine) func() {
			w.Do(func() { m.cut = true })
			return func() { w.Do(func() { m.cut = false }) }
		}),
		{"zone cut off", 1, func() func() {
			zone := ""
			if m := w.any(runs); m != nil {
				zone = m.at.Zone
			}
			cut := func(is bool) {
				w.Do(func() {
					for _, m := range w.machines {
						if m.at.Zone == zone {
							m.cut = is
						}
					}
				})
			}
			cut(true)
			return func() { cut(false) }
		}},
		w.of("name reused", 1, func(m *machine) bool {
			end := w.ended[m.at.ID]
			return !end.IsZero() && time.Since(end) > 2*time.Second && w.aws.Instance(m.at.ID).State != "shutting-down"
		}, func(m *machine) func() { w.launch(m.name); return nil }),
		w.of("Node deleted by a person", 1, func(m *machine) bool { return w.Nodes[m.name] != nil }, func(m *machine) func() {
			w.Do(func() { w.remove(m.name) })
			return nil
		}),
		w.of("mark heeded by a person", 2, w.isMarked, func(m *machine) func() {
			w.Do(func() { w.remove(m.name) })
			return nil
		}),
		w.of("mark forged", 1, func(m *machine) bool { return w.Nodes[m.name] != nil }, func(m *machine) func() {
			garbage := w.rnd.IntN(2) == 0
			w.Do(func() {
				n := w.Nodes[m.name]
				if n == nil {
					return
				}
				n = n.DeepCopy()
				if n.Annotations == nil {
					n.Annotations = make(map[string]string)
				}
				if n.Annotations[lifecycle.Mark] = n.Spec.ProviderID; garbage {
					n.Annotations[lifecycle.Mark] = "aws:///z/i-\x00\""
				}
				w.Change("MODIFIED", n)
			})
			return nil
		}),
	}
}

// isMarked reports whether a machine's Node is held because it has another machine.
func (w *soakWorld) isMarked(m *machine) bool {
	n := w.Nodes[m.name]
	return n != nil && n.Spec.ProviderID != "" && n.Annotations[lifecycle.Mark] == n.Spec.ProviderID
}

// start starts the stopped instance of a machine. One that is still stopping cannot be
// started.
func (w *soakWorld) start(m *machine) {
	lives := false
	w.Do(func() { lives = w.lives(m) })
	for lives && w.aws.Instance(m.at.ID).State == "stopping" {
		w.wait(100 * time.Millisecond)
	}
	if lives && w.aws.Instance(m.at.ID).State == "stopped" {
		w.aws.Run(m.at.ID)
	}
	w.Do(func() {
		m.stopped = false
		m.boots++
	})
}

func (w *soakWorld) replicaTroubles() []trouble {
	end := func(by syscall.Signal) func() func() {
		return func() func() {
			i := w.rnd.IntN(len(w.replicas))
			w.replicas[i].End(by)
			w.wait(time.Duration(w.rnd.IntN(6000)) * time.Millisecond)
			w.replicas[i] = w.cluster.launch(w.args...)
			return nil
		}
	}
	return []trouble{
		{"replica killed", 1, end(syscall.SIGKILL)},
		{"replica ended", 1, end(syscall.SIGTERM)},
		{"replica frozen", 6, func() func() {
			i := w.rnd.IntN(len(w.replicas))
			p := w.replicas[i]
			if p.Over() {
				w.t.Errorf("replica %d has ended: %s", i, p.Said())
				return nil
			}
			p.Freeze()
			w.wait(time.Duration(1000+w.rnd.IntN(7000)) * time.Millisecond)
			p.Thaw()
			return nil
		}},
	}
}
