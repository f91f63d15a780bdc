package cloudbalancer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// Whatever Services, Nodes and people do: at rest each Service has what it wants, and
// nothing of others was changed.
func TestRandomHistoriesEndInWhatIsWanted(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			l := newLab(t)
			foreign := cloud.SecurityGroup{ID: "sg-foreign", Name: "foreign", Network: "net-1", Tags: map[string]string{"kubernetes.io/cluster/other": "owned"}, Rules: []cloud.Rule{{Protocol: "tcp", From: 22, To: 22}}}
			l.cloud.Put(cloud.Balancing{Security: []cloud.SecurityGroup{foreign}})
			alive := make(map[string]Service)
			for range 12 {
				name := []string{"web", "db", "dns"}[r.IntN(3)]
				switch r.IntN(6) {
				case 0:
					if s, is := alive[name]; is {
						l.remove(s.Ref)
						delete(alive, name)
					}
				case 1:
					l.nodes(1 + r.IntN(6))
				case 2: // a person deletes something of ours
					if all := l.cloud.All(); len(all.Balancers) > 0 && r.IntN(2) == 0 {
						l.cloud.Drop(all.Balancers[r.IntN(len(all.Balancers))].ID)
					}
					l.read()
					for _, s := range alive {
						l.account.Forget(l.account.Holding(testCluster, s.Ref, nil))
					}
				default:
					s := service(name, randomly(r))
					alive[name] = s
				}
				for _, s := range alive {
					w := l.want(s)
					if _, last := l.settle(w); !last.Done {
						t.Fatalf("%s: %+v", s.Name, last)
					}
				}
			}
			for _, s := range alive {
				l.balance(s)
			}
			all := l.cloud.All()
			if len(all.Balancers) != len(alive) || !slices.ContainsFunc(all.Security, func(g cloud.SecurityGroup) bool { return g.ID == foreign.ID && len(g.Rules) == 1 }) {
				t.Errorf("%d balancers for %d Services; %+v", len(all.Balancers), len(alive), all.Security)
			}
			for _, s := range alive {
				l.remove(s.Ref)
			}
			if all := l.cloud.All(); len(all.Balancers)+len(all.Groups) > 0 || len(all.Security) != 2 {
				t.Errorf("left: %+v", all)
			}
		})
	}
}

// randomly changes what a Service wants.
func randomly(r *rand.Rand) func(*Service) {
	return func(s *Service) {
		s.Ports = nil
		for i := range 1 + r.IntN(3) {
			p := Port{Name: fmt.Sprint("p", i), Protocol: []string{"TCP", "UDP"}[r.IntN(2)], Port: 80 + i, NodePort: 30000 + 10*r.IntN(3) + i}
			if s.Ports = append(s.Ports, p); r.IntN(3) == 0 {
				p.Protocol = map[string]string{"TCP": "UDP", "UDP": "TCP"}[p.Protocol]
				s.Ports = append(s.Ports, p)
			}
		}
		if r.IntN(3) == 0 {
			s.Local, s.HealthPort = true, 32000
		}
		if r.IntN(3) == 0 {
			s.SourceRanges = []string{"192.0.2.0/24", "198.51.100.0/24"}[:1+r.IntN(2)]
		}
		for _, pair := range [][2]string{{aCrossZone, "true"}, {aProxy, "*"}, {aTags, "team=a"}, {aCheckInterval, "20"}, {aExtra, "sg-nodes"}} {
			if r.IntN(4) == 0 {
				annotate(pair[0], pair[1])(s)
			}
		}
	}
}
