package housetest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// flagTables are the files that have tulled's flags.
var flagTables = []string{"pkg/options/table.go", "pkg/etcdflags/etcdflags.go"}

var (
	flagName    = regexp.MustCompile(`\{Name: "([a-z0-9-]+)"`)
	flagWritten = regexp.MustCompile(`--([a-z][a-z0-9-]*)`)
	programName = regexp.MustCompile(`\btulled\b`)
	// mayNameFlags are the folders whose texts may name the program and its flags: those
	// of programs, and the one that runs the host's iptables with flags of its own.
	mayNameFlags = regexp.MustCompile(`^(\.|dist|pkg/(options|flags|etcdflags|command|daemon|cmd|test|firewall/iptables))(/|$)`)
)

var settings = rule{
	name: "texts of libraries name neither tulled nor a flag of it",
	why: "another program that uses the room has another name and other flags. Take the names from the caller, " +
		"as etcd.Names does; pkg/daemon has them.",
	check: func(h house) (found []finding) {
		flags := make(map[string]bool)
		for _, f := range h {
			if slices.Contains(flagTables, f.path) {
				for _, m := range flagName.FindAllStringSubmatch(f.text, -1) {
					flags[m[1]] = true
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
