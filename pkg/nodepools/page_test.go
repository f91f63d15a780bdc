package nodepools

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/ipam"
)

// page returns the page for operators, and the files of pools that it shows, in order.
func page(t *testing.T) (text string, files []string) {
	t.Helper()
	all, err := os.ReadFile("../../Documentation/node-pools.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```yaml\n(pools:\n.*?)```").FindAllStringSubmatch(string(all), -1) {
		files = append(files, m[1])
	}
	return string(all), files
}

// TestPageExamples: each file on the page does what the page says.
func TestPageExamples(t *testing.T) {
	_, files := page(t)
	label := func(pairs ...string) map[string]string {
		labels := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			labels[pairs[i]] = pairs[i+1]
		}
		return labels
	}
	const zone, kind = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"
	examples := []struct {
		name   string
		labels []map[string]string // of Nodes, in the order of their creation
		has    []string            // the pools and blocks that they get
	}{
		{"simple", []map[string]string{nil, nil}, []string{"default 10.244.0.0/24 fd00:10:244::/64", "default 10.244.1.0/24 fd00:10:244:1::/64"}},
		{"grow", []map[string]string{nil}, []string{"default 10.8.0.0/24"}},
		{"drain", []map[string]string{nil}, []string{"default 10.8.0.0/24"}},
		{
			"split",
			[]map[string]string{label(zone, "eu-1a"), label(zone, "eu-1b"), label(zone, "eu-1b", kind, "metal"), label(zone, "eu-1c"), label(zone, "eu-1a", kind, "metal")},
			[]string{"zone-a 10.1.0.0/24", "zone-b 10.2.0.0/24", "large-in-b 10.3.0.0/22", "elsewhere 10.4.0.0/24", "zone-a 10.1.1.0/24"},
		},
		{
			"expressions",
			[]map[string]string{label(zone, "eu-1a"), label(zone, "eu-1b", kind, "metal"), label(zone, "eu-1c"), label("gpu", "")},
			[]string{"first-zones 10.1.0.0/24", "metal 10.2.0.0/22", "", "metal 10.2.4.0/22"},
		},
	}
	if len(files) != len(examples) {
		t.Fatalf("%d files", len(files))
	}
	for i, e := range examples {
		pools, err := Parse([]byte(files[i]), nil)
		if err != nil {
			t.Fatalf("%s: %v", e.name, err)
		}
		book, err := ipam.New(pools)
		if err != nil {
			t.Fatalf("%s: %v", e.name, err)
		}
		now := time.Unix(1_000_000, 0)
		for j, labels := range e.labels {
			name := string(rune('a' + j))
			book.Set(ipam.Node{Name: name, UID: name, Labels: labels}, now)
			grants, _ := book.Next(now, 1)
			got := ""
			for _, g := range grants {
				got = g.Pool
				for _, c := range g.CIDRs {
					got += " " + c.String()
				}
			}
			if got != e.has[j] {
				t.Errorf("%s: Node %d gets %q, want %q", e.name, j, got, e.has[j])
			}
		}
	}
}

// TestPageHasEveryField: the page lists the fields that a file may have, and no other.
func TestPageHasEveryField(t *testing.T) {
	text, _ := page(t)
	_, rest, _ := strings.Cut(text, "## Fields")
	var got []string
	for _, m := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|").FindAllStringSubmatch(rest, -1) {
		for _, name := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(m[1], -1) {
			got = append(got, name[1][1+strings.LastIndex(name[1], "."):])
		}
	}
	want := slices.Concat(poolFields, familyFields, []string{"firstFamily"}, termFields)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the page has %q, want %q", got, want)
	}
}
