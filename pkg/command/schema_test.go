package command

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/cniplugins"
	"github.com/tulle-net/tulle/pkg/configcheck"
	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/wgkey"
	"github.com/tulle-net/tulle/subnet"
)

var update = flag.Bool("update", false, "write the fields into the page")

const page = "../../Documentation/json.md"

// answers are what commands write for programs, by the kind in their schema.
var answers = []struct {
	kind string
	what any
}{
	{"status", status.Report{}},
	{"peers", peersAnswer{}},
	{"explanation", status.Explanation{}},
	{"leases", status.Leases{}},
	{"config", configAnswer{}},
	{"bugreport", reportAnswer{}},
	{"cleanup", cleanupAnswer{}},
	{"rotation", rotationAnswer{}},
	{"plugins", pluginsAnswer{}},
	{"version", versionAnswer{}},
}

// choices are the possible values of a field, by its type or its path.
var choices = map[string][]string{
	"status.Code": strs(status.Codes()), "status.PeerState": strs(status.PeerStates()), "status.LeaseState": strs(status.LeaseStates()),
	"configcheck.Code":        strs(configcheck.Codes()),
	"step":                    append([]string{wgkey.None.String()}, wgkey.Steps()...),
	"wireguard.rotation.step": wgkey.Steps(),
	"cniplugins.Outcome":      strs([]cniplugins.Outcome{cniplugins.Installed, cniplugins.Replaced, cniplugins.Kept, cniplugins.Left}),
	"leases[].code":           subnet.RejectionCodes(), "rejectedLeases[].code": subnet.RejectionCodes(),
	"fights[].kind": status.FightKinds(), "probes.cause": strs(probe.Causes()), "peers[].probes.cause": strs(probe.Causes()),
}

func strs[T ~string](all []T) (texts []string) {
	for _, v := range all {
		texts = append(texts, string(v))
	}
	return texts
}

// field is one field of an answer.
type field struct {
	path, kind string
	choices    []string
}

// fieldsOf returns the fields of a type, including those of its fields.
func fieldsOf(t reflect.Type, path string) (all []field) {
	kind := ""
	switch t {
	case reflect.TypeFor[time.Time]():
		kind = "time"
	case reflect.TypeFor[netip.Addr]():
		kind = "address"
	case reflect.TypeFor[netip.Prefix]():
		kind = "network"
	}
	switch {
	case kind != "":
	case t == reflect.TypeFor[json.RawMessage]():
		kind = "object"
	case t.Kind() == reflect.Pointer:
		return fieldsOf(t.Elem(), path)
	case t.Kind() == reflect.Slice:
		return fieldsOf(t.Elem(), path+"[]")
	case t.Kind() == reflect.Map:
		return fieldsOf(t.Elem(), path+".KEY")
	case t.Kind() == reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !regexp.MustCompile(`^[a-z][a-zA-Z]*$`).MatchString(name) {
				panic(fmt.Sprintf("%s.%s is called %q in JSON", t, f.Name, name))
			}
			all = append(all, fieldsOf(f.Type, strings.TrimPrefix(path+"."+name, "."))...)
		}
		return all
	case t.Kind() == reflect.Bool:
		kind = "boolean"
	case t.Kind() == reflect.String:
		kind = "text"
	case t.Kind() == reflect.Interface:
		kind = "object"
	default:
		kind = "number"
	}
	f := field{path: path, kind: kind, choices: choices[t.String()]}
	if f.choices == nil {
		f.choices = choices[path]
	}
	return []field{f}
}

var fieldRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (\\w+) \\| (.*) \\|$")

// TestPageHasEveryField holds the page of the schema and the code together.
func TestPageHasEveryField(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		heading := "\n## tulle." + a.kind + "/" + answer.SchemaVersion + "\n"
		before, section, found := strings.Cut(string(text), heading)
		if !found {
			t.Errorf("the page lacks %q", heading)
			continue
		}
		section, after, _ := strings.Cut(section, "\n## ")
		meanings := make(map[string]string)
		var written, want []string
		for _, row := range fieldRow.FindAllStringSubmatch(section, -1) {
			written, meanings[row[1]] = append(written, row[1]+" "+row[2]), row[3]
		}
		var table strings.Builder
		for _, f := range fieldsOf(reflect.TypeOf(a.what), "") {
			want = append(want, f.path+" "+f.kind)
			fmt.Fprintf(&table, "| `%s` | %s | %s |\n", f.path, f.kind, meanings[f.path])
			if meanings[f.path] == "" {
				t.Errorf("%s: the page does not explain %s", a.kind, f.path)
			}
			for _, c := range f.choices {
				if !strings.Contains(meanings[f.path], "`"+c+"`") {
					t.Errorf("%s: the page does not name %q, which %s can be", a.kind, c, f.path)
				}
			}
		}
		if *update {
			intro, _, _ := strings.Cut(section, "| field |")
			if after != "" {
				after = "\n## " + after
			}
			text = []byte(before + heading + strings.TrimRight(intro, "\n") + "\n\n| field | type | meaning |\n|---|---|---|\n" + table.String() + after)
		} else if !slices.Equal(written, want) {
			t.Errorf("%s: the page has the fields\n%s\nwant (-update writes them)\n%s", a.kind, strings.Join(written, "\n"), strings.Join(want, "\n"))
		}
	}
	if *update {
		if err := os.WriteFile(page, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnswersNameTheirSchema: what programs read begins with its schema.
func TestAnswersNameTheirSchema(t *testing.T) {
	for _, a := range answers {
		var out bytes.Buffer
		if err := answer.Write(answer.JSON, &out, a.kind, a.what, nil); err != nil {
			t.Fatal(err)
		}
		var named struct{ Schema string }
		want := "tulle." + a.kind + "/v1"
		if err := json.Unmarshal(out.Bytes(), &named); err != nil || named.Schema != want || !strings.HasPrefix(out.String(), "{\n  \"schema\": ") {
			t.Errorf("%v, not %s:\n%s", err, want, out.String())
		}
		out.Reset()
		if err := answer.Write(answer.YAML, &out, a.kind, a.what, nil); err != nil || !strings.Contains(out.String(), "schema: "+want+"\n") {
			t.Errorf("%v, not %s:\n%s", err, want, out.String())
		}
	}
}
