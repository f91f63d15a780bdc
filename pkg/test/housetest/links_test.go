package housetest

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

var links = rule{
	name: "links between pages lead somewhere",
	why: "a page is renamed, a heading rewritten, and a person that follows the link at night finds nothing: correct the link with it. " +
		"README.md links every page of Documentation, or no newcomer finds it.",
	check: func(h house) (found []finding) {
		headings := make(map[string][]string)
		for _, f := range h {
			headings[f.path] = nil
			if path.Ext(f.path) == ".md" {
				for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(f.text, ""), -1) {
					headings[f.path] = append(headings[f.path], anchor(m[1]))
				}
			}
		}
		linked := make(map[string]bool)
		for _, f := range h {
			if path.Ext(f.path) != ".md" {
				continue
			}
			for i, line := range strings.Split(f.text, "\n") {
				for _, m := range link.FindAllStringSubmatch(line, -1) {
					to, at, _ := strings.Cut(m[1], "#")
					if to = path.Join(path.Dir(f.path), to); strings.HasPrefix(m[1], "#") {
						to = f.path
					}
					if f.path == "README.md" {
						linked[to] = true
					}
					if known, there := headings[to]; !there && !h.hasFolder(to) || at != "" && !slices.Contains(known, at) {
						found = append(found, finding{fmt.Sprintf("%s:%d", f.path, i+1), "there is no " + m[1]})
					}
				}
			}
		}
		for _, f := range h {
			if path.Dir(f.path) == "Documentation" && path.Ext(f.path) == ".md" && !linked[f.path] {
				found = append(found, finding{f.path, "README.md does not link it"})
			}
		}
		return found
	},
}

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	// link matches a link to a file here, whose path has no scheme.
	link  = regexp.MustCompile(`\]\(([^):]+)\)`)
	plain = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchor returns what a link writes after # for a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(plain.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

func (h house) hasFolder(name string) bool {
	return slices.ContainsFunc(h, func(f file) bool { return strings.HasPrefix(f.path, name+"/") })
}
