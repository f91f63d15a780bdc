package housetest

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// walls list what a room must not link, however indirectly.
var walls = []struct {
	room string // a pattern of the go command
	not  *regexp.Regexp
	why  string
}{
	{"./network/...", regexp.MustCompile(netlinkModule.String() + `|^` + module + `/(pkg/kernel|pkg/firewall/|subnet/)`),
		"pkg/daemon hands a node its kernel, its firewall and its store as interfaces"},
	{"./pkg/hostif", regexp.MustCompile(netlinkModule.String() + `|^` + module + `/(pkg/kernel|pkg/firewall|network)`),
		"it chooses from a netstate.Survey of any origin"},
	{"./backend/...", regexp.MustCompile(netlinkModule.String() + `|^` + module + `/(pkg/kernel|pkg/firewall|pkg/reconcile|network|subnet/)`),
		"a backend is a pure function of leases"},
	{"./subnet/...", regexp.MustCompile(netlinkModule.String() + `|^` + module + `/(pkg/kernel|pkg/firewall|pkg/hostif|pkg/reconcile|pkg/netstate|backend|network)`),
		"programs without a kernel to bring to a state stand on the domain and its stores too"},
	{"./pkg/kube", regexp.MustCompile(netlinkModule.String() + `|^` + module + `/(pkg/kernel|pkg/firewall|pkg/hostif|pkg/reconcile|pkg/netstate|backend|network|subnet)`),
		"it is the way to an API server, for whatever program"},
	{"./pkg/election", regexp.MustCompile(netlinkModule.String() + `|^go\.etcd\.io/|^` + module + `/(pkg/kernel|pkg/firewall|pkg/hostif|pkg/reconcile|pkg/netstate|backend|network|subnet)`),
		"it elects a leader of whatever program, on an API server alone"},
	{"./pkg/httpd", regexp.MustCompile(netlinkModule.String() + `|^` + module + `/(pkg/kernel|pkg/firewall|pkg/status|backend|network|subnet)`),
		"it serves whatever program"},
	{"./pkg/flags", regexp.MustCompile(netlinkModule.String() + `|^` + module + `/`),
		"it reads the command line of whatever program"},
	{"./pkg/cmd/tulle-controller", regexp.MustCompile(netlinkModule.String() + `|^` + module + `/(pkg/kernel|pkg/firewall|pkg/hostif|pkg/reconcile|pkg/netstate|pkg/companion|pkg/etcdprocess|pkg/etcdserver|backend|network|subnet/kube)|^go\.etcd\.io/(bbolt|raft|etcd/(server|etcdutl))`),
		"it serves a cluster or hosts with an etcd, on a host that it does not touch; it is a client of etcd only"},
	{"./pkg/daemon", regexp.MustCompile(`^` + module + `/pkg/(controller|election|ipam|cloud)(/|$)`),
		"a node gives out no podCIDRs, and is elected to nothing"},
	{"./pkg/reconcile", regexp.MustCompile(netlinkModule.String() + `|^` + module + `/(pkg/kernel|subnet|backend|network)`),
		"it says itself what it needs of a kernel"},
	{"./pkg/web", regexp.MustCompile(netlinkModule.String() + `|^` + module + `/(pkg/kernel|pkg/firewall|network|backend)`),
		"it shows a report, and works nothing out"},
}

// TestWallsHoldForAllLinkedPackages compares the walls with all that a room links, not only with what it
// imports itself.
func TestWallsHoldForAllLinkedPackages(t *testing.T) {
	for _, w := range walls {
		t.Run(w.room, func(t *testing.T) {
			list := exec.Command("go", "list", "-deps", w.room)
			list.Dir = "../../.."
			text, err := list.Output()
			if err != nil {
				t.Fatal(err)
			}
			deps := strings.Fields(string(text))
			if len(deps) == 0 {
				t.Fatal("no such room")
			}
			for _, d := range deps {
				if d != module+strings.TrimPrefix(w.room, ".") && w.not.MatchString(d) {
					t.Errorf("%s links %s; %s", w.room, d, w.why)
				}
			}
		})
	}
}
