package netstate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/tulle-net/tulle/pkg/netstate"
)

// TestDiff checks the plan for each kind of difference.
func TestDiff(t *testing.T) {
	dst := pfx("10.1.2.0/24")
	metric := SpreadMetric(dst)
	link := vxlan("tulle.1", 1)
	addr := Addr{"tulle.1", pfx("10.1.0.0/32")}
	neigh := Neigh{"tulle.1", ip("10.1.2.0"), mac(2)}
	fdb := FDB{"tulle.1", mac(2), false, ip("192.0.2.2")}
	route := Route{Dst: dst, Via: ip("10.1.2.0"), Link: "tulle.1", OnLink: true}
	forward := Sysctl{"net/ipv4/conf/all/forwarding", "1"}
	filter := Sysctl{"net/ipv4/conf/tulle.1/rp_filter", "2"}
	all := []Object{link, filter, addr, neigh, fdb, route}

	direct := Route{Dst: dst, Via: ip("192.0.2.2"), Link: "eth0"}
	// of is another's route, with what differs from direct.
	of := func(protocol uint8, change func(*Route)) Route {
		r := direct
		r.Protocol = protocol
		if change != nil {
			change(&r)
		}
		return r
	}
	on := func(link string) func(*Route) { return func(r *Route) { r.Link = link } }
	spread := direct
	spread.Metric = metric
	flannel := vxlan("flannel.1", 1)

	withLink := func(change func(*Link)) []Object {
		l := link
		change(&l)
		return append([]Object{l}, all[1:]...)
	}

	tests := []struct {
		name            string
		desired, actual []Object
		want            string
	}{
		{"nothing", nil, nil, ""},
		{"all there", all, all, ""},
		{"all missing", all, nil, `
create link tulle.1
create sysctl net/ipv4/conf/tulle.1/rp_filter
create addr 10.1.0.0/32 dev tulle.1
create neigh 10.1.2.0 dev tulle.1
create fdb 3a:00:00:00:00:02 dev tulle.1
create route 10.1.2.0/24
`},
		{"flannel's direct route where ours leads to the same host through the tunnel", all, append(slices.Clone(all[:5]), of(ProtocolBoot, nil)), "replace route 10.1.2.0/24\n"},
		{"a stranger's route to another host there", all, append(slices.Clone(all[:5]), of(ProtocolBoot, func(r *Route) { r.Via = ip("192.0.2.3") })), "create route 10.1.2.0/24\n"},
		{"a route appended to ours", all, append(slices.Clone(all), direct), "delete route 10.1.2.0/24\n"},
		{"ours appended to another of ours", all, append([]Object{direct}, all...), "delete route 10.1.2.0/24\n"},
		{"two that are both wrong", []Object{route}, []Object{direct, Route{Dst: dst, Link: "eth0"}}, `
replace route 10.1.2.0/24
delete route 10.1.2.0/24
`},
		// What is on the link goes with it, and a setting has no absence.
		{"all superfluous", nil, all, "delete link tulle.1\n"},
		{"all but the link superfluous", all[:1], all, `
delete route 10.1.2.0/24
delete fdb 3a:00:00:00:00:02 dev tulle.1
delete neigh 10.1.2.0 dev tulle.1
delete addr 10.1.0.0/32 dev tulle.1
`},
		{"each changed", []Object{
			link, Sysctl{forward.Path, "1"}, Neigh{"tulle.1", neigh.IP, mac(3)}, FDB{"tulle.1", fdb.MAC, false, ip("192.0.2.3")}, direct,
		}, []Object{link, Sysctl{forward.Path, "0"}, neigh, fdb, route}, `
replace sysctl net/ipv4/conf/all/forwarding
replace neigh 10.1.2.0 dev tulle.1
replace fdb 3a:00:00:00:00:02 dev tulle.1
replace route 10.1.2.0/24
`},
		{"adds before it deletes", []Object{link, Addr{"tulle.1", pfx("10.1.9.0/32")}}, []Object{link, addr, route}, `
create addr 10.1.9.0/32 dev tulle.1
delete route 10.1.2.0/24
delete addr 10.1.0.0/32 dev tulle.1
`},
		{"link down", all, withLink(func(l *Link) { l.Up = false }), "replace link tulle.1\n"},
		{"another MTU", all, withLink(func(l *Link) { l.MTU = 1500 }), "replace link tulle.1\n"},
		{"another MAC drops the neighbours", all, withLink(func(l *Link) { l.MAC = mac(9) }), `
replace link tulle.1
replace neigh 10.1.2.0 dev tulle.1
`},
		{"another VNI costs all", all, withLink(func(l *Link) { l.VXLAN.VNI = 9 }), `
replace link tulle.1
replace sysctl net/ipv4/conf/tulle.1/rp_filter
replace addr 10.1.0.0/32 dev tulle.1
replace neigh 10.1.2.0 dev tulle.1
replace fdb 3a:00:00:00:00:02 dev tulle.1
replace route 10.1.2.0/24
`},
		{"what is too much on a re-created link goes with it",
			all[:1], withLink(func(l *Link) { l.VXLAN.VNI = 9 }), "replace link tulle.1\n"},
		{"a route moves off a link that goes", []Object{direct}, []Object{link, route}, `
replace route 10.1.2.0/24
delete link tulle.1
`},

		{"flannel's on the same link is taken over", []Object{direct}, []Object{of(3, nil)}, "replace route 10.1.2.0/24\n"},
		{"flannel's by another gateway too", []Object{direct},
			[]Object{of(3, func(r *Route) { r.Via = ip("192.0.2.9") })}, "replace route 10.1.2.0/24\n"},
		{"flannel's on its own device too", []Object{direct}, []Object{of(3, on("flannel.1"))}, "replace route 10.1.2.0/24\n"},
		{"and on ours", []Object{link, direct}, []Object{link, of(3, on("tulle.1"))}, "replace route 10.1.2.0/24\n"},
		{"not one on another link", []Object{direct}, []Object{of(3, on("eth1"))}, "create route 10.1.2.0/24\n"},
		{"not an administrator's", []Object{direct}, []Object{of(4, nil)}, "create route 10.1.2.0/24\n"},
		{"not an administrator's on our link", []Object{link, direct}, []Object{link, of(4, on("tulle.1"))}, "create route 10.1.2.0/24\n"},
		{"not a routing daemon's to elsewhere on our link", all[:1], []Object{link, of(186, on("tulle.1"))}, ""},
		{"not one to elsewhere", nil, []Object{of(3, nil), of(3, on("flannel.1"))}, ""},
		{"one to elsewhere on an adopted link is a predecessor's", []Object{flannel}, []Object{flannel, of(3, on("flannel.1"))},
			"delete route 10.1.2.0/24\n"},

		{"ours on another metric", []Object{spread}, []Object{direct}, `
create route 10.1.2.0/24 metric METRIC
delete route 10.1.2.0/24
`},
		{"flannel's would win over ours on a metric", []Object{spread}, []Object{of(3, nil)}, `
create route 10.1.2.0/24 metric METRIC
delete route 10.1.2.0/24
`},
		{"and goes when ours is there", []Object{spread}, []Object{spread, of(3, on("flannel.1"))}, "delete route 10.1.2.0/24\n"},
		{"one on another link stays", []Object{spread}, []Object{spread, of(3, on("eth1"))}, ""},
		{"an administrator's stays", []Object{spread}, []Object{spread, of(4, nil)}, ""},
		{"one that comes after ours stays", []Object{spread}, []Object{spread, of(3, func(r *Route) { r.Metric = metric + 1 })}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			desired := Of(test.desired...)
			for range 2 { // a State keeps marks of the last Diff
				got := ""
				for _, op := range Diff(desired, test.actual) {
					got += op.Verb.String() + " " + op.Object.Key().String() + "\n"
				}
				want := strings.ReplaceAll(test.want, "METRIC", fmt.Sprint(metric))
				if got != want && "\n"+got != want {
					t.Fatalf("got:\n%swant:\n%s", got, want)
				}
			}
		})
	}
}
