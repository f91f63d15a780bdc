package options

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/alloc"
	"github.com/tulle-net/tulle/backend/cloud"
	"github.com/tulle-net/tulle/backend/hostgw"
	"github.com/tulle-net/tulle/backend/ipip"
	"github.com/tulle-net/tulle/backend/vxlan"
	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/subnet"
)

// These tests compare the page for operators with the code. The rows of its tables
// begin with a name in backquotes, then comes the default.

const page = "../../Documentation/configuration.md"

func readPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var row = regexp.MustCompile("^\\| `([^`]+)` \\| ([^|]*) \\| (.*) \\|$")

// rows are the rows of text's tables, by name.
func rows(t *testing.T, text string) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	for line := range strings.Lines(text) {
		if m := row.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
			if found[m[1]] != nil {
				t.Errorf("%s is there twice", m[1])
			}
			found[m[1]] = m[2:]
		} else if strings.HasPrefix(line, "| `") {
			t.Errorf("not a valid row: %s", line)
		}
	}
	return found
}

// section returns the text below a heading, up to the next heading of its level or
// above.
func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, below, ok := strings.Cut(text, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("there is no %q", heading)
	}
	level := strings.IndexByte(heading, ' ')
	next := regexp.MustCompile(`(?m)^#{1,` + string(rune('0'+level)) + `} `)
	if at := next.FindStringIndex(below); at != nil {
		below = below[:at[0]]
	}
	return below
}

func TestPageHasEveryFlag(t *testing.T) {
	text := section(t, readPage(t), "## Flags")
	all := rows(t, text)
	for _, f := range tulled.Flags {
		r, ok := all[f.Written()]
		if !ok {
			t.Errorf("there is no %s", f.Written())
			continue
		}
		want := "–"
		if f.Default != "" {
			want = "`" + f.Default + "`"
		}
		if r[0] != want {
			t.Errorf("%s: the default is given as %s, not %s", f.Written(), r[0], want)
		}
		if repeated := strings.Contains(r[1], "repeated"); repeated != f.Many {
			t.Errorf("%s: said to be repeated: %t", f.Written(), repeated)
		}
		if _, ok := rows(t, section(t, text, "### "+f.Group))[f.Written()]; !ok {
			t.Errorf("%s is not below %s", f.Written(), f.Group)
		}
	}
	if len(all) != len(tulled.Flags) {
		t.Errorf("%d flags, there are %d", len(all), len(tulled.Flags))
	}
}

// TestPageHasNoOtherFlag checks that every flag on the page exists.
func TestPageHasNoOtherFlag(t *testing.T) {
	text := readPage(t)
	for _, m := range regexp.MustCompile(`(?:^|[^\w|-])--?([a-z][a-z0-9_-]*)`).FindAllStringSubmatch(text, -1) {
		if _, ok := tulled.Find(m[1]); !ok {
			t.Errorf("there is no flag %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`\b(?:TULLED|FLANNELD)_(\w+)`).FindAllStringSubmatch(text, -1) {
		if !slices.ContainsFunc(tulled.Flags, func(f flags.Flag) bool { return f.Variable() == m[1] }) {
			t.Errorf("there is no variable %s", m[0])
		}
	}
}

func TestPageHasEveryKey(t *testing.T) {
	text := section(t, readPage(t), "## The network's config")
	above, _, _ := strings.Cut(text, "\n### ")
	wantKeys(t, "the config", above, fields(t, "../../subnet", "document"))

	folders, err := filepath.Glob("../../backend/*")
	if err != nil {
		t.Fatal(err)
	}
	types := 0
	for _, folder := range folders {
		if name := backendName(t, folder); name != "" {
			types++
			wantKeys(t, name, section(t, text, "### "+name), fields(t, folder, "config"))
		}
	}
	if headings := strings.Count(text, "\n### "); headings != types || types == 0 {
		t.Errorf("%d backends, there are %d", headings, types)
	}
}

func wantKeys(t *testing.T, of, text string, want []string) {
	t.Helper()
	got := slices.Sorted(maps.Keys(rows(t, text)))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: got the keys %q, want %q", of, got, want)
	}
	if none := strings.Contains(text, "No keys."); none != (len(want) == 0) {
		t.Errorf("%s: said to have no keys: %t", of, none)
	}
}

// fields returns the fields of a package's struct into which a config is decoded.
func fields(t *testing.T, folder, name string) (all []string) {
	t.Helper()
	declarations(t, folder, func(n ast.Node) {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != name {
			return
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			for _, n := range f.Names {
				all = append(all, n.Name)
			}
		}
	})
	return all
}

// backendName returns a package's constant Type, or "".
func backendName(t *testing.T, folder string) (name string) {
	t.Helper()
	declarations(t, folder, func(n ast.Node) {
		if spec, ok := n.(*ast.ValueSpec); ok && spec.Names[0].Name == "Type" && len(spec.Values) == 1 {
			if value, ok := spec.Values[0].(*ast.BasicLit); ok {
				name = strings.Trim(value.Value, `"`)
			}
		}
	})
	return name
}

func declarations(t *testing.T, folder string, found func(ast.Node)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				for _, spec := range g.Specs {
					found(spec)
				}
			}
		}
	}
}

// TestPageExamples checks that the page's examples are valid.
func TestPageExamples(t *testing.T) {
	backends := map[string]backend.Factory{
		alloc.Type: alloc.New, cloud.Type: cloud.New, hostgw.Type: hostgw.New, ipip.Type: ipip.New, vxlan.Type: vxlan.New,
	}
	configs, commands := 0, 0
	for _, m := range regexp.MustCompile("(?s)```(\\w*)\n(.*?)```").FindAllStringSubmatch(readPage(t), -1) {
		if m[1] == "json" {
			configs++
			cfg, err := subnet.ParseConfig([]byte(m[2]))
			if err != nil {
				t.Errorf("%s%v", m[2], err)
				continue
			}
			if _, err := backends[cfg.Backend.Type](cfg, backend.HostFacts{}); err != nil {
				t.Errorf("%s%v", m[2], err)
			}
			continue
		}
		for line := range strings.Lines(m[2]) {
			words := strings.Fields(line)
			if words[0] != "tulled" {
				continue
			}
			commands++
			if o := parse(t, words[1:], nil); len(o.Warnings) > 0 {
				t.Errorf("%s%q", line, o.Warnings)
			}
		}
	}
	if configs == 0 || commands == 0 {
		t.Errorf("%d configs, %d commands", configs, commands)
	}
}

// TestPageDefaults compares the defaults of the keys with those in the code.
func TestPageDefaults(t *testing.T) {
	text := section(t, readPage(t), "## The network's config")
	defaults := func(text string) string {
		var keys []string
		for name, r := range rows(t, text) {
			if value := strings.Trim(r[0], "`"); value != r[0] {
				keys = append(keys, `"`+name+`": `+value)
			}
		}
		slices.Sort(keys)
		return strings.Join(keys, ", ")
	}
	above, _, _ := strings.Cut(text, "\n### ")
	for _, network := range []string{`"Network": "10.5.0.0/16"`, `"EnableIPv6": true, "Network": "10.5.0.0/16", "IPv6Network": "fd00:5::/48"`} {
		short, err := subnet.ParseConfig([]byte("{" + network + "}"))
		if err != nil {
			t.Fatal(err)
		}
		// The last of two keys counts.
		long, err := subnet.ParseConfig([]byte("{" + defaults(above) + ", " + network + "}"))
		if err != nil {
			t.Fatal(err)
		}
		long.Backend.Raw = "" // it was left out
		if long != short {
			t.Errorf("the defaults spelled out are %+v, not %+v", long, short)
		}
	}
	for name, factory := range map[string]backend.Factory{vxlan.Type: vxlan.New, cloud.Type: cloud.New, ipip.Type: ipip.New} {
		if err := sameWith(factory, name, defaults(section(t, text, "### "+name))); err != "" {
			t.Error(err)
		}
	}
}

// sameWith says what is different in a network whose backend has keys.
func sameWith(factory backend.Factory, name, keys string) string {
	var made []backend.Backend
	for _, text := range []string{`{"Type":"` + name + `"}`, `{"Type":"` + name + `", ` + keys + `}`} {
		cfg, err := subnet.ParseConfig([]byte(`{"Network":"10.5.0.0/16","Backend":` + text + `}`))
		if err != nil {
			return err.Error()
		}
		b, err := factory(cfg, backend.HostFacts{})
		if err != nil {
			return err.Error()
		}
		made = append(made, b)
	}
	if !reflect.DeepEqual(made[0], made[1]) {
		return fmt.Sprintf("%s with its defaults spelled out is %+v, not %+v", name, made[1], made[0])
	}
	return ""
}
