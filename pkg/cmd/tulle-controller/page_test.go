package main

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/controller/nodeipam"
	"github.com/tulle-net/tulle/pkg/controller/route"
)

// pageSection returns what stands below a heading of the page, up to the next of its
// level or above.
func pageSection(t *testing.T, heading string) string {
	t.Helper()
	return sectionOf(t, "controller.md", heading)
}

func sectionOf(t *testing.T, page, heading string) string {
	t.Helper()
	text, err := os.ReadFile("../../../Documentation/" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, below, ok := strings.Cut(string(text), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("there is no %q", heading)
	}
	level := strings.Repeat("#", strings.IndexByte(heading, ' '))
	for i := range len(level) {
		below, _, _ = strings.Cut(below, "\n"+level[:i+1]+" ")
	}
	return below
}

var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]*) \\| (.*) \\|$")

func TestPageHasEveryFlag(t *testing.T) {
	var s settings
	text := pageSection(t, "## Flags")
	var got, want []string
	for _, r := range row.FindAllStringSubmatch(text, -1) {
		got = append(got, r[1]+" "+r[2])
	}
	for _, f := range s.table() {
		value := "–"
		if f.Default != "" {
			value = "`" + f.Default + "`"
		}
		want = append(want, f.Written()+" "+value)
		if !strings.Contains(pageSection(t, "### "+f.Group), "| `"+f.Written()+"` |") {
			t.Errorf("%s is not below %s", f.Written(), f.Group)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the page has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The page names no flag that does not exist.
func TestPageHasNoOtherFlag(t *testing.T) {
	text, err := os.ReadFile("../../../Documentation/controller.md")
	if err != nil {
		t.Fatal(err)
	}
	var s settings
	p := s.program()
	for _, m := range regexp.MustCompile("[ `]--([a-z][a-z0-9-]*)").FindAllStringSubmatch(string(text), -1) {
		if _, ok := p.Find(m[1]); !ok {
			t.Errorf("there is no flag %s", m[1])
		}
	}
}

func TestPageHasEveryMetric(t *testing.T) {
	var got, want []string
	for _, r := range row.FindAllStringSubmatch(pageSection(t, "## Health and metrics"), -1) {
		if strings.HasPrefix(r[1], prefixed) {
			got = append(got, r[1]+" "+r[3])
		}
	}
	name := regexp.MustCompile(`fqName: "([^"]*)", help: "([^"]*)"`)
	descs := []string{writeSeconds.String()}
	for _, m := range table() {
		descs = append(descs, m.desc.String())
	}
	for _, text := range descs {
		m := name.FindStringSubmatch(text)
		want = append(want, m[1]+" "+m[2])
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the page has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// fieldsOf returns the fields of an answer, with their types.
func fieldsOf(t reflect.Type, path string) (all []string) {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return []string{path + " time"}
	case t.Kind() == reflect.Pointer:
		return fieldsOf(t.Elem(), path)
	case t.Kind() == reflect.Slice:
		return fieldsOf(t.Elem(), path+"[]")
	case t.Kind() == reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			all = append(all, fieldsOf(f.Type, strings.TrimPrefix(path+"."+name, "."))...)
		}
		return all
	case t.Kind() == reflect.String:
		return []string{path + " text"}
	case t.Kind() == reflect.Bool:
		return []string{path + " boolean"}
	}
	return []string{path + " number"}
}

func TestPageHasEveryField(t *testing.T) {
	for heading, what := range map[string]any{"### tulle.plan/v1": planAnswer{}, "### tulle.ipam/v1": ipamAnswer{}, "### tulle.routes/v1": routesAnswer{}, "### tulle.explain/v1": explainAnswer{}, "### tulle.network/v1": networkAnswer{}} {
		var got []string
		page := "controller.md"
		if heading == "### tulle.network/v1" {
			page = "aws-network.md"
		}
		text := sectionOf(t, page, heading)
		for _, r := range row.FindAllStringSubmatch(text, -1) {
			got = append(got, r[1]+" "+r[2])
		}
		if want := fieldsOf(reflect.TypeOf(what), ""); !slices.Equal(got, want) {
			t.Errorf("%s: the page has\n%s\nwant\n%s", heading, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for _, code := range findingCodes() {
			if strings.Contains(heading, "ipam") && !strings.Contains(text, "`"+string(code)+"`") {
				t.Errorf("the page does not name %s", code)
			}
		}
	}
}

// What the page shows of a command line works.
func TestPageExamples(t *testing.T) {
	text, err := os.ReadFile("../../../Documentation/controller.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^(?:\$ )?tulle-controller (.*)$`).FindAllStringSubmatch(string(text), -1)
	for _, m := range lines {
		settingsOf(t, strings.Fields(m[1])...)
	}
	if len(lines) < 3 {
		t.Errorf("%d examples", len(lines))
	}
}

func TestAnswersHaveNoNull(t *testing.T) {
	for _, what := range []any{newPlanAnswer(), newRoutesAnswer(route.Report{}), newIPAMAnswer(nodeipam.Report{})} {
		if text, err := json.Marshal(what); err != nil || strings.Contains(string(text), "null") {
			t.Errorf("%s, %v", text, err)
		}
	}
}
