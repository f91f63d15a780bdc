package housetest

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

const module = "github.com/tulle-net/tulle"

// roomsPage has the table of rooms.
const roomsPage = "Documentation/design.md"

// room is a row of the table: what a part of the house may import.
type room struct {
	// at is a folder, "." for main.go. A last element NAME is any folder there, and
	// "…" is everything below.
	at      string
	may     []string // what other rows have as at
	any     bool
	stdOnly bool // no other module's packages
}

var (
	roomsRow = regexp.MustCompile("^\\| `([^`]+)` \\| [^|]+ \\| ([^|]+) \\|$")
	roomName = regexp.MustCompile("`([^`]+)`")
)

// readRooms returns the rows of the page's table, and the lines in it that are not
// valid rows.
func readRooms(page string) (rooms []room, wrong []string) {
	_, table, _ := strings.Cut(page, "\n| room | what it holds | imports |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		line = strings.TrimSuffix(line, "\n")
		m := roomsRow.FindStringSubmatch(line)
		if m == nil {
			wrong = append(wrong, line)
			continue
		}
		r := room{at: folderOf(m[1]), any: m[2] == "any", stdOnly: m[2] == "the standard library"}
		for _, name := range roomName.FindAllStringSubmatch(m[2], -1) {
			r.may = append(r.may, folderOf(name[1]))
		}
		if len(r.may) == 0 && !r.any && !r.stdOnly && m[2] != "–" {
			wrong = append(wrong, line)
		}
		rooms = append(rooms, r)
	}
	return rooms, wrong
}

// folderOf returns the folder that the table calls name.
func folderOf(name string) string {
	if name == "main.go" {
		return "."
	}
	return strings.TrimSuffix(name, "/")
}

// holds reports whether a folder belongs to the room.
func (r room) holds(folder string) bool {
	switch above, last := path.Split(r.at); last {
	case "…":
		return strings.HasPrefix(folder+"/", above)
	case "NAME":
		return path.Dir(folder)+"/" == above
	}
	return folder == r.at
}

var imports = rule{
	name: "imports are those of the table of rooms",
	why: "the table in " + roomsPage + " lists for each room what it imports, and that is above it: main → pkg/command → pkg/daemon → network → backend → subnet, pkg/netstate. " +
		"Most often the importer should say what it needs as an interface, and pkg/daemon hand the thing in. Tests may import any room.",
	check: func(h house) (found []finding) {
		i := slices.IndexFunc(h, func(f file) bool { return f.path == roomsPage })
		if i < 0 {
			return []finding{{roomsPage, "there is no such page"}}
		}
		rooms, wrong := readRooms(h[i].text)
		for _, line := range wrong {
			found = append(found, finding{roomsPage, "not a row of the table of rooms: " + line})
		}
		rowOf := func(folder string) int {
			return slices.IndexFunc(rooms, func(r room) bool { return r.holds(folder) })
		}
		lived, imported := make(map[int]bool), make(map[[2]int]bool)
		for _, f := range h.code() {
			own := rowOf(f.folder())
			lived[own] = true
			switch {
			case f.isTest() || isHelper(f.folder()):
				continue
			case own < 0:
				found = append(found, finding{f.path, "the table of rooms has no row for " + f.folder()})
				continue
			}
			for _, spec := range f.syntax.Imports {
				to, ours := inModule(importOf(spec))
				if !ours {
					if rooms[own].stdOnly && !isStd(importOf(spec)) {
						found = append(found, finding{f.at(spec), f.folder() + " imports " + importOf(spec) + "; it may import the standard library only"})
					}
					continue
				}
				row := rowOf(to)
				switch {
				case rooms[own].any || isHelper(to): // the rule about helpers checks these
				case row < 0 || !slices.Contains(rooms[own].may, rooms[row].at):
					found = append(found, finding{f.at(spec), f.folder() + " imports " + to + ", which its row does not list"})
				case row >= own:
					found = append(found, finding{f.at(spec), f.folder() + " imports " + to + ", which is not above it"})
				}
				imported[[2]int{own, row}] = true
			}
		}
		for own, r := range rooms {
			if !lived[own] {
				found = append(found, finding{roomsPage, "there is no room " + r.at})
			}
			for _, to := range r.may {
				if !imported[[2]int{own, slices.IndexFunc(rooms, func(r room) bool { return r.at == to })}] {
					found = append(found, finding{roomsPage, r.at + " does not import " + to})
				}
			}
		}
		return found
	},
}

// isStd reports whether a package is in the standard library.
func isStd(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
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

// netlink also applies to tests: they have kerneltest.
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

// fits reports whether a pattern of the go command matches a folder: "backend/..." is
// backend and all below it.
func fits(pattern, folder string) bool {
	above, tree := strings.CutSuffix(pattern, "...")
	return pattern == folder || tree && strings.HasPrefix(folder+"/", above)
}

// inModule returns the folder of a package of this module.
func inModule(importPath string) (folder string, ours bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func isHelper(folder string) bool {
	return fits("pkg/test/...", folder) || strings.HasSuffix(path.Base(folder), "test")
}
