package housetest

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

const module = "github.com/tulle-net/tulle"

// room says what a part of the house may import. Patterns are those of the go
// command: "backend/..." is backend and all below it. In may, "./..." is the
// importing package's own folder.
type room struct {
	at      string
	may     []string
	not     []string // although in may
	stdOnly bool     // no other module's packages
	why     string
}

// rooms has a row for every room; the first that fits a package counts.
var rooms = []room{
	{at: ".", may: []string{"backend/...", "pkg/command"},
		why: "it has the version and the table of backends, and pkg/command does the rest"},
	{at: "dist/...", stdOnly: true,
		why: "it packs what was built, and nothing has to be fetched for that"},
	{at: "network/...", may: []string{"./...", "backend/...", "subnet", "pkg/..."}, not: []string{"pkg/kernel/..."},
		why: "pkg/daemon hands a node its store and its kernel, so that its life is tested without either"},
	{at: "backend", may: []string{"subnet", "pkg/netstate"},
		why: "it says what a backend is, and knows none"},
	{at: "backend/...", may: []string{"./...", "backend", "subnet", "pkg/netstate"},
		why: "a backend is a pure function from leases to state and knows no other backend"},
	{at: "subnet", stdOnly: true,
		why: "it is the domain, which all others stand on: standard library only"},
	{at: "subnet/kube", may: []string{"subnet", "pkg/kube", "pkg/trouble"},
		why: "it says what to believe of a cluster's Nodes; pkg/kube brings them"},
	{at: "subnet/...", may: []string{"./...", "subnet", "pkg/retry", "pkg/trouble"},
		why: "a store knows leases and nothing of the node that holds one"},
	{at: "pkg/netstate", stdOnly: true,
		why: "it is plain values, which all others stand on: standard library only"},
	{at: "pkg/reconcile", may: []string{"pkg/budget", "pkg/netstate", "pkg/retry", "pkg/trouble"},
		why: "it says itself what it needs of a kernel, and a lease means nothing to it"},
	{at: "pkg/kernel/...", may: []string{"pkg/kernel/...", "pkg/netstate", "pkg/retry"},
		why: "it brings the kernel to a state; why that state is wanted is not its business"},
	{at: "pkg/kube/...", may: []string{"./...", "pkg/retry"},
		why: "it speaks to an API server for whoever asks, and a lease means nothing to it"},
	{at: "pkg/command", may: []string{"pkg/...", "network", "backend", "subnet"},
		why: "it hands what main has of backends and of the version to the command that needs it"},
	{at: "pkg/daemon", may: []string{"pkg/...", "network", "backend", "subnet/..."}, not: []string{"pkg/command"},
		why: "it wires all rooms but the backends, which main hands it, and knows no other command"},
	{at: "pkg/cmd/...", may: []string{"pkg/..."}, not: []string{"pkg/command", "pkg/daemon", "pkg/kernel/..."},
		why: "it is a program of its own, and no node's daemon"},
	{at: "pkg/...", may: []string{"pkg/...", "subnet"}, not: []string{"pkg/command", "pkg/daemon", "pkg/cmd/..."},
		why: "it is a small thing with one job, and knows nothing of the node that it serves"},
}

var imports = rule{
	name: "imports run downward",
	why: "main → pkg/command → pkg/daemon → network → backend → subnet, pkg/netstate, as the table rooms in pkg/test/housetest/imports_test.go has it. " +
		"Most often the importer should say what it needs as an interface, and pkg/daemon hand the thing in. Tests may import any room.",
	check: func(h house) (found []finding) {
		for _, f := range h.code() {
			if f.isTest() {
				continue
			}
			i := slices.IndexFunc(rooms, func(r room) bool { return fits(r.at, f.folder()) })
			if i < 0 {
				found = append(found, finding{f.path, "the table rooms has no row for " + f.folder()})
				continue
			}
			for _, spec := range f.syntax.Imports {
				if !rooms[i].allows(f.folder(), importOf(spec)) {
					found = append(found, finding{f.at(spec), f.folder() + " imports " + importOf(spec) + "; " + rooms[i].why})
				}
			}
		}
		return found
	},
}

var helpers = rule{
	name: "test helpers stay in tests",
	why: "a package in pkg/test, or whose name ends in test (storetest, kerneltest), is imported by _test.go files and by its like alone: " +
		"what only a test needs does not go into tulled.",
	check: func(h house) (found []finding) {
		for _, f := range h.code() {
			if f.isTest() || isHelper(f.folder()) {
				continue
			}
			for _, spec := range f.syntax.Imports {
				if to, ours := inModule(importOf(spec)); ours && isHelper(to) {
					found = append(found, finding{f.at(spec), f.folder() + " imports " + to + " outside a test"})
				}
			}
		}
		return found
	},
}

// netlink holds for tests too: they have kerneltest.
var netlink = rule{
	name: "only pkg/kernel speaks netlink",
	why: "what a kernel shall hold is a netstate.State, and pkg/kernel brings it there, or rules of its firewall, " +
		"which pkg/firewall/nft does; a test makes namespaces and looks into them with pkg/kernel/kerneltest.",
	check: func(h house) (found []finding) {
		for _, f := range h.code() {
			if fits("pkg/kernel/...", f.folder()) || f.folder() == "pkg/firewall/nft" {
				continue
			}
			for _, spec := range f.syntax.Imports {
				to := importOf(spec)
				if _, ours := inModule(to); !ours && netlinkModule.MatchString(to) {
					found = append(found, finding{f.at(spec), f.folder() + " imports " + to})
				}
			}
			for _, sys := range []string{"syscall", "golang.org/x/sys/unix"} {
				f.uses(sys, func(s *ast.SelectorExpr) {
					if netlinkName.MatchString(s.Sel.Name) {
						found = append(found, finding{f.at(s), f.folder() + " uses " + path.Base(sys) + "." + s.Sel.Name})
					}
				})
			}
		}
		return found
	},
}

var (
	netlinkModule = regexp.MustCompile(`(^|/)(netlink|rtnetlink|genetlink|netns|wgctrl)(/|$)`)
	netlinkName   = regexp.MustCompile(`^(AF_NETLINK$|NETLINK_|NLM_|NLMSG_|RTM_)|Netlink`)
)

// allows reports whether a package at from may import the package to.
func (r room) allows(from, to string) bool {
	if inside, ours := inModule(to); ours {
		match := func(pattern string) bool {
			if pattern == "./..." {
				pattern = from + "/..."
			}
			return fits(pattern, inside)
		}
		return slices.ContainsFunc(r.may, match) && !slices.ContainsFunc(r.not, match)
	}
	first, _, _ := strings.Cut(to, "/")
	std := !strings.Contains(first, ".")
	return std || !r.stdOnly
}

func fits(pattern, folder string) bool {
	above, tree := strings.CutSuffix(pattern, "...")
	return pattern == folder || tree && strings.HasPrefix(folder+"/", above)
}

// inModule is the folder of a package of ours.
func inModule(importPath string) (folder string, ours bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func isHelper(folder string) bool {
	return fits("pkg/test/...", folder) || strings.HasSuffix(path.Base(folder), "test")
}
