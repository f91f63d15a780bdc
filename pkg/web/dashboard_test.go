package web

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dashboard is what the tests read of Grafana's dashboard.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Templating    struct{ List []variable }
	Panels        []panel
}

type variable struct {
	Name, Type, Definition string
	Multi, IncludeAll      bool
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ H, W, X, Y int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct{ RefID, Expr string }
}

func readDashboard(t *testing.T) (d dashboard, text []byte) {
	t.Helper()
	text, err := os.ReadFile("../../dist/grafana/tulle.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d, text
}

func TestDashboardIsWellFormed(t *testing.T) {
	d, text := readDashboard(t)
	if d.UID != "tulle" || d.Title == "" || d.SchemaVersion < 36 {
		t.Errorf("%s, %s, schema %d", d.UID, d.Title, d.SchemaVersion)
	}
	vars := make(map[string]variable)
	for _, v := range d.Templating.List {
		vars[v.Name] = v
	}
	if vars["datasource"].Type != "datasource" {
		t.Error("there is no variable datasource")
	}
	if n := vars["node"]; n.Type != "query" || !n.Multi || !n.IncludeAll || n.Definition != `label_values(up{job=~"$job"}, instance)` {
		t.Errorf("the variable node is %+v", n)
	}
	for _, m := range regexp.MustCompile(`"uid":\s*"([^"]*)"`).FindAllStringSubmatch(string(text), -1) {
		if m[1] != "${datasource}" && m[1] != d.UID {
			t.Errorf("a data source is %s on every Grafana", m[1])
		}
	}
	ids, titles := make(map[int]bool), make(map[string]bool)
	var taken [][4]int
	for _, p := range d.Panels {
		if p.ID == 0 || ids[p.ID] || p.Title == "" || titles[p.Title] {
			t.Errorf("panel %d, %q: no number or title of its own", p.ID, p.Title)
		}
		ids[p.ID], titles[p.Title] = true, true
		at := [4]int{p.GridPos.X, p.GridPos.X + p.GridPos.W, p.GridPos.Y, p.GridPos.Y + p.GridPos.H}
		for _, o := range taken {
			if at[0] < o[1] && o[0] < at[1] && at[2] < o[3] && o[2] < at[3] {
				t.Errorf("%q lies over another", p.Title)
			}
		}
		taken = append(taken, at)
		if p.GridPos.W <= 0 || p.GridPos.H <= 0 || at[1] > 24 {
			t.Errorf("%q is at %+v", p.Title, p.GridPos)
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Description) < 20 || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
			t.Errorf("%q has no description, unit or query", p.Title)
		}
	}
}

// TestDashboardUsesExistingMetrics: the dashboard queries existing metrics, of the
// selected nodes.
func TestDashboardUsesExistingMetrics(t *testing.T) {
	_, scraped := scrape(t, everyBackend()) // it has all metrics
	d, _ := readDashboard(t)
	var all []string
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, target.Expr)
			for _, wrong := range wrongIn(target.Expr, string(scraped)) {
				t.Errorf("%q: %s, in %s", p.Title, wrong, target.Expr)
			}
		}
	}
	for _, c := range [][2]string{
		{`sum(tulle_gone{job=~"$job", instance=~"$node"})`, "there is no tulle_gone"},
		{`tulle_ready`, "not of the nodes that were chosen"},
		{`sum by (kind) (tulle_ready{job=~"$job", instance=~"$node"})`, "no label kind"},
		{`tulle_ready{job=~"$job", instance=~"$node", check="x"}`, "no label check"},
	} {
		if found := wrongIn(c[0], string(scraped)); len(found) != 1 || !strings.Contains(found[0], c[1]) {
			t.Errorf("in %s is found %q", c[0], found)
		}
	}
	// The dashboard shows the metrics that the alerts watch.
	rules, err := os.ReadFile("../../dist/prometheus/tulle.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`tulle_\w+`).FindAllString(string(rules), -1) {
		if !strings.Contains(strings.Join(all, "\n"), name+"{") {
			t.Errorf("an alert watches %s, and the dashboard does not show it", name)
		}
	}

	promtool(t, "check", "rules", asRules(t, all))
	for name, wrong := range map[string]string{"syntax": `sum(`, "function": `rates(up[5m])`, "type": `rate(up)`} {
		if out, err := runPromtool("check", "rules", asRules(t, []string{wrong})); err == nil {
			t.Errorf("promtool takes a wrong %s: %s", name, out)
		}
	}
}

// asRules returns the path of a rules file with a dashboard's expressions.
func asRules(t *testing.T, expressions []string) string {
	t.Helper()
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	for i, e := range expressions {
		rules = append(rules, rule{fmt.Sprintf("dashboard:query:%d", i), strings.ReplaceAll(e, "$__rate_interval", "5m")})
	}
	text, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rules.yml") // JSON is YAML
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var (
	quoted   = regexp.MustCompile(`"[^"]*"`)
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	selector = regexp.MustCompile(`\b([a-zA-Z_:][\w:]*)\s*(\{[^}]*\}|\[|\(|)`)
	operator = []string{"and", "or", "unless", "bool", "offset", "by", "without", "on", "ignoring", "group_left", "group_right"}
)

// wrongIn returns the metrics and labels of an expression that are not in scraped.
// Prometheus itself adds job, instance and up.
func wrongIn(expr, scraped string) (wrong []string) {
	labels := map[string]bool{"job": true, "instance": true}
	var asked []string
	ask := func(list string) {
		asked = append(asked, regexp.MustCompile(`[a-zA-Z_]\w*`).FindAllString(list, -1)...)
	}
	// Strings do not matter, except those that select the nodes.
	rest := quoted.ReplaceAllStringFunc(expr, func(s string) string {
		return map[string]string{`"$job"`: `"1"`, `"$node"`: `"2"`}[s]
	})
	for _, m := range grouping.FindAllStringSubmatch(rest, -1) {
		ask(m[1])
	}
	rest = grouping.ReplaceAllString(rest, " ")
	for _, m := range selector.FindAllStringSubmatch(regexp.MustCompile(`\[[^\]]*\]`).ReplaceAllString(rest, ""), -1) {
		name, next := m[1], m[2]
		if next == "(" || slices.Contains(operator, name) {
			continue
		}
		if !strings.Contains(next, `job=~"1", instance=~"2"`) {
			wrong = append(wrong, name+" is not of the nodes that were chosen")
		}
		ask(quoted.ReplaceAllString(next, ""))
		series := regexp.MustCompile(`(?m)^`+name+`(?:\{(.*)\})? `).FindAllStringSubmatch(scraped, -1)
		if len(series) == 0 && name != "up" {
			wrong = append(wrong, "there is no "+name)
		}
		for _, s := range series {
			for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(s[1], -1) {
				labels[l[1]] = true
			}
		}
	}
	for _, l := range asked {
		if !labels[l] {
			wrong = append(wrong, "there is no label "+l)
		}
	}
	return wrong
}
