package housetest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// flagTables matches the files that have the flags of tulled and of tulle-controller.
var flagTables = regexp.MustCompile(`^pkg/(options/table|etcdflags/etcdflags|cmd/tulle-controller/[a-z]+)\.go$`)

// incumbents are flags of tulle-controller that kube-controller-manager has, too. A text may
// mean that program.
var incumbents = []string{"allocate-node-cidrs", "cluster-cidr"}

var (
	flagName    = regexp.MustCompile(`\{Name: "([a-z0-9-]+)"`)
	flagWritten = regexp.MustCompile(`--([a-z][a-z0-9-]*)`)
	programName = regexp.MustCompile(`\btulled\b`)
	// mayNameFlags are the folders whose texts may name the program and its flags: those
	// of programs, and the one that runs the host's iptables with flags of its own.
	mayNameFlags = regexp.MustCompile(`^(\.|dist|pkg/(options|flags|etcdflags|command|daemon|cmd|test|firewall/iptables))(/|$)`)
)

var settings = rule{
	name: "texts of libraries name neither tulled nor a flag of it or of tulle-controller",
	why: "another program that uses the room has another name and other flags. Take the names from the caller, " +
		"as etcd.Names does; pkg/daemon and pkg/cmd have them.",
	check: func(h house) (found []finding) {
		flags := make(map[string]bool)
		for _, f := range h {
			if flagTables.MatchString(f.path) {
				for _, m := range flagName.FindAllStringSubmatch(f.text, -1) {
					flags[m[1]] = !slices.Contains(incumbents, m[1])
				}
			}
		}
		for _, f := range h.code() {
			if f.isTest() || mayNameFlags.MatchString(f.folder()) {
				continue
			}
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
					for _, m := range flagWritten.FindAllStringSubmatch(text.Value, -1) {
						if flags[strings.TrimRight(m[1], "-")] {
							found = append(found, finding{f.at(n), fmt.Sprintf("names %s", m[0])})
						}
					}
					if programName.MatchString(text.Value) {
						found = append(found, finding{f.at(n), "names tulled"})
					}
				}
				return true
			})
		}
		return found
	},
}
