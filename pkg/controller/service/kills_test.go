package service

import (
	"fmt"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// phase is work on a Service that a kill interrupts.
type phase struct {
	name  string
	calls int // at least
	work  func(l *lab)
}

// phases are the life of a Service.
var phases = []phase{
	{"creation", 7, func(l *lab) { l.add("web") }},
	{"change", 15, func(l *lab) {
		l.change("web", func(d map[string]any) {
			port := func(name, protocol string, port, node int) map[string]any {
				return map[string]any{"name": name, "protocol": protocol, "port": int64(port), "nodePort": int64(node)}
			}
			spec := d["spec"].(map[string]any)
			spec["ports"] = []any{port("http", "TCP", 80, 30081), port("dns", "UDP", 53, 30053)}
			spec["loadBalancerSourceRanges"] = []any{"192.0.2.0/24"}
			for name, value := range map[string]string{"cross-zone-load-balancing-enabled": "true", "proxy-protocol": "*", "additional-resource-tags": "team=a"} {
				annotate(name, value)(d)
			}
		})
	}},
	{"deletion", 5, func(l *lab) { l.delete("web") }},
}

// The process is killed after each single change of the cloud that is made: the next one
// ends in the same state, makes nothing twice and leaves nothing.
func TestKilledAtEveryChange(t *testing.T) {
	for i, p := range phases {
		for n, more := 0, true; more; n++ {
			t.Run(fmt.Sprintf("%s/%d", p.name, n), func(t *testing.T) {
				inLab(t, func(l *lab) {
					l.Begin()
					for _, before := range phases[:i] {
						before.work(l)
						l.Pass(time.Minute)
					}
					base, made, never := len(l.cloud.Changes()), 0, make(chan struct{})
					l.cloud.Do(func() {
						l.cloud.Hold = func(cloud.BalancerChange) <-chan struct{} {
							if made++; made > n {
								return never
							}
							return nil
						}
					})
					p.work(l)
					l.Pass(10 * time.Second)
					l.cloud.Do(func() { l.cloud.Hold = nil })
					if more = made > n; !more && n < p.calls {
						t.Errorf("%d changes, want at least %d", n, p.calls)
					}
					l.crash()
					l.Pass(2 * time.Minute)
					if p.name == "deletion" {
						l.wantNothing()
						if l.API.Object(path("web")) != nil {
							t.Error("the Service is still there")
						}
						return
					}
					l.wantBalanced("web", 1, 2)
					groups := map[string]int{"creation": 1, "change": 2}[p.name]
					if all := l.cloud.All(); len(all.Balancers) != 1 || len(all.Balancers[0].Listeners) != groups || len(all.Groups) != groups || len(all.Security) != 2 {
						t.Errorf("%+v", all)
					}
					made = len(l.cloud.Changes())
					l.Pass(20 * time.Minute)
					if again := len(l.cloud.Changes()); again != made || made == base {
						t.Errorf("%d changes, %d of them at rest", made-base, again-made)
					}
				})
			})
		}
	}
}
