package nodepools

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/subnet"
)

func networksOf(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// whole is a file with every field.
const whole = `
firstFamily: IPv6
pools:
- name: zone-a
  nodeSelector:
    topology.kubernetes.io/zone: a
    pool: ""
  ipv4:
    ranges: [10.1.0.0/16, 10.7.0.0/16]
    blockBits: 25
    drainingRanges: [10.1.0.0/17]
  ipv6:
    ranges: ["fd00:1::/48"]
- name: old
  draining: true
  ipv4:
    ranges:
    - 10.244.0.0/16
`

func TestParse(t *testing.T) {
	got, err := Parse([]byte(whole), nil)
	if err != nil {
		t.Fatal(err)
	}
	in := func(key, value string) ipam.Requirement {
		return ipam.Requirement{Key: key, Operator: "In", Values: []string{value}}
	}
	want := []ipam.Pool{
		{
			Name: "zone-a", Ranges: subnet.Pair[[]netip.Prefix]{networksOf("10.1.0.0/16", "10.7.0.0/16"), networksOf("fd00:1::/48")},
			Bits: subnet.Pair[int]{25, 64}, First: subnet.IPv6, Draining: networksOf("10.1.0.0/17"),
			Selector: &ipam.Selector{Terms: []ipam.Term{{Labels: []ipam.Requirement{in("pool", ""), in("topology.kubernetes.io/zone", "a")}}}},
			Grow:     "add a range to the pool zone-a in the file of pools",
		},
		{
			Name: "old", Ranges: subnet.Pair[[]netip.Prefix]{networksOf("10.244.0.0/16"), nil}, Bits: subnet.Pair[int]{24, 0},
			First: subnet.IPv6, Draining: networksOf("10.244.0.0/16"), Grow: "add a range to the pool old in the file of pools",
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
	if _, err := ipam.New(got); err != nil {
		t.Error(err)
	}
}

// TestSelectorsMeanWhatTheyMeanInClusterCIDRs checks every operator, in the notation of
// Kubernetes.
func TestSelectorsMeanWhatTheyMeanInClusterCIDRs(t *testing.T) {
	const long = "a-node.with-a-name-that-is-longer-than-the-value-of-a-label.example.com"
	text := `
pools:
- name: a
  ipv4: {ranges: [10.1.0.0/16]}
  nodeSelector:
    nodeSelectorTerms:
    - matchExpressions:
      - {key: zone, operator: In, values: [x, "y"]}
      - {key: gpu, operator: Exists}
      - {key: old, operator: DoesNotExist}
    - matchExpressions:
      - {key: zone, operator: NotIn, values: [x, "y", ""]}
      - {key: cpus, operator: Gt, values: ["64"]}
      - {key: cpus, operator: Lt, values: ["128"]}
    - matchFields:
      - {key: metadata.name, operator: In, values: [` + long + `]}
- name: b
  ipv4: {ranges: [10.2.0.0/16]}
  nodeSelector: {nodeSelectorTerms: mine} # a label of that name
- name: c
  ipv4: {ranges: [10.3.0.0/16]}
`
	pools, err := Parse([]byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	book, err := ipam.New(pools)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range []struct {
		name   string
		labels map[string]string
		pool   string
	}{
		{"", map[string]string{"zone": "x", "gpu": ""}, "a"},
		{"", map[string]string{"zone": "y", "gpu": "t4", "old": ""}, "c"},
		{"", map[string]string{"zone": "x"}, "c"},
		{"", map[string]string{"zone": "z", "cpus": "65"}, "a"},
		{"", map[string]string{"cpus": "127"}, "a"},
		{"", map[string]string{"cpus": "128"}, "c"},
		{"", map[string]string{"cpus": "many"}, "c"},
		{"", map[string]string{"zone": "x", "cpus": "65"}, "c"},
		{"", map[string]string{"nodeSelectorTerms": "mine"}, "b"},
		{long, nil, "a"},
	} {
		name := cmp.Or(n.name, fmt.Sprint("node-", i))
		book.Set(ipam.Node{Name: name, UID: name, Labels: n.labels}, time.Unix(1_000_000, 0))
		grants, _ := book.Next(time.Unix(1_000_000, 0), 1)
		if len(grants) != 1 || grants[0].Pool != n.pool {
			t.Errorf("Node %d gets %+v, want one of pool %s", i, grants, n.pool)
		}
	}
}

// flagged are the pools that the flags give.
var flagged = ipam.Pool{Name: "cluster-cidr", First: subnet.IPv6, Bits: subnet.Pair[int]{24, 64}, Ranges: subnet.Pair[[]netip.Prefix]{networksOf("10.244.0.0/16"), networksOf("fd00::/48")}}

// TestPoolsRespectTheOthers: a Node lists first the family of the pools from elsewhere, whose
// names and addresses the file cannot use. The file may also be JSON.
func TestPoolsRespectTheOthers(t *testing.T) {
	got, err := Parse([]byte(`{"pools": [{"name": "a", "ipv4": {"ranges": ["10.1.0.0/16"]}}]}`), []ipam.Pool{flagged})
	if err != nil || got[0].First != subnet.IPv6 {
		t.Errorf("%+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"{firstFamily: IPv4, pools: []}":   "firstFamily: is IPv4, and pool cluster-cidr lists IPv6 first; remove this field",
		one("cluster-cidr", "10.1.0.0/16"): "pools[0]: another pool is also called cluster-cidr; give each its own name",
		one("a", "10.244.7.0/24"):          "range 10.244.7.0/24 of pool a overlaps 10.244.0.0/16 of pool cluster-cidr; give each address to one pool",
		one("a", "10.0.0.0/8"):             "range 10.244.0.0/16 of pool cluster-cidr overlaps 10.0.0.0/8 of pool a; give each address to one pool",
	} {
		if _, err := Parse([]byte(text), []ipam.Pool{flagged}); fmt.Sprint(err) != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// one returns a file with a pool.
func one(name, network string) string {
	return fmt.Sprintf("{pools: [{name: %s, ipv4: {ranges: [%s]}}]}", name, network)
}

// TestRefusalsNameThePlaceAndTheFix: Parse neither guesses nor ignores anything.
func TestRefusalsNameThePlaceAndTheFix(t *testing.T) {
	v4 := func(text string) string { return "pools: [{name: a, ipv4: {" + text + "}}]" }
	labels := func(text string) string {
		return "pools: [{name: a, ipv4: {ranges: [10.0.0.0/16]}, nodeSelector: " + text + "}]"
	}
	expressions := func(text string) string {
		return labels("{nodeSelectorTerms: [{matchExpressions: [" + text + "]}]}")
	}
	for text, want := range map[string]string{
		"":                                       "is empty; write an object with pools, firstFamily",
		"- a":                                    "is a list; write an object with pools, firstFamily",
		"{}":                                     "has no pools; write a list under the key pools",
		"pools: []":                              "pools: has no pool; add one",
		"pools: 7":                               "pools: is the number 7; write a list",
		"pool: []":                               `unknown key "pool"; did you mean pools?`,
		"pools: [a]":                             `pools[0]: is the text "a"; write an object with name, nodeSelector, ipv4, ipv6, draining`,
		"pools: [{}]":                            "pools[0]: has no name; give it one",
		"pools: [{name: 7}]":                     "pools[0].name: is the number 7; put it in quotes",
		"pools: [{name: }]":                      "pools[0].name: is empty; write a text",
		"pools: [{name: a/b}]":                   `pools[0].name: "a/b"; use up to 63 letters, digits, dashes, dots and underscores`,
		"pools: [{name: a}]":                     `pools[0]: pool "a": no range; add one like 10.244.0.0/16`,
		"pools: [{name: a, ipv4: }]":             "pools[0].ipv4: is empty; write an object with ranges, blockBits, drainingRanges",
		"pools: [{name: a, ipv4: {}}]":           "pools[0].ipv4: has no ranges; add ranges: [10.244.0.0/16]",
		"pools: [{name: a, ipv6: {}}]":           "pools[0].ipv6: has no ranges; add ranges: [fd00:10:244::/48]",
		v4("ranges: []"):                         "pools[0].ipv4.ranges: has no range; add one like 10.244.0.0/16",
		v4("ranges: 10.0.0.0/16"):                `pools[0].ipv4.ranges: is the text "10.0.0.0/16"; write a list`,
		v4("ranges: [10.0.0.0]"):                 `pools[0].ipv4.ranges[0]: "10.0.0.0" is not a range in CIDR notation; write one like 10.244.0.0/16`,
		v4("ranges: [10.0.0.0/16, 10.1.2.0/16]"): "pools[0].ipv4.ranges[1]: 10.1.2.0/16 has host bits; write 10.1.0.0/16",
		v4(`ranges: ["fd00::/48"]`):              "pools[0].ipv4.ranges[0]: fd00::/48 is not an IPv4 range; move it to the other family",
		v4("ranges: [10.0.0.0/16, 10.0.4.0/24]"): "range 10.0.4.0/24 of pool a overlaps 10.0.0.0/16 of pool a; give each address to one pool",
		v4("ranges: [10.0.0.0/16], blockbits: 24"):                                `pools[0].ipv4: unknown key "blockbits"; did you mean blockBits?`,
		v4("ranges: [10.0.0.0/16], blockBits: /24"):                               `pools[0].ipv4.blockBits: is the text "/24"; write a number from 1 to 32`,
		v4("ranges: [10.0.0.0/16], blockBits: 24.5"):                              "pools[0].ipv4.blockBits: is the number 24.5; write a number from 1 to 32",
		v4("ranges: [10.0.0.0/16], blockBits: 33"):                                "pools[0].ipv4.blockBits: is the number 33; write a number from 1 to 32",
		v4("ranges: [10.0.0.0/16], blockBits: 8"):                                 `pools[0]: pool "a": range 10.0.0.0/16: its blocks cannot be /8; use a length from 16 to 32`,
		v4("ranges: [10.0.0.0/16], drainingRanges: [10.1.0.0/24]"):                "pools[0].ipv4.drainingRanges: 10.1.0.0/24 is not part of a range of the pool; correct or remove it",
		v4("ranges: [10.0.0.0/16], drainingRanges: [10.0.0.0/8]"):                 "pools[0].ipv4.drainingRanges: 10.0.0.0/8 is not part of a range of the pool; correct or remove it",
		"pools: [{name: a, draining: yes please, ipv4: {ranges: [10.0.0.0/16]}}]": `pools[0].draining: is the text "yes please"; write true or false`,
		labels("{}"):                        "pools[0].nodeSelector: has no label; add one, or remove nodeSelector for a pool of every Node",
		labels("a"):                         `pools[0].nodeSelector: is the text "a"; write labels, as in {topology.kubernetes.io/zone: a}`,
		labels("{a b: c}"):                  `pools[0].nodeSelector: "a b" is not a label key; write one like topology.kubernetes.io/zone`,
		labels("{a_b/c: d}"):                `pools[0].nodeSelector: "a_b/c" is not a label key; write one like topology.kubernetes.io/zone`,
		labels("{zone: 7}"):                 "pools[0].nodeSelector.zone: is the number 7; put it in quotes",
		labels("{zone: b c}"):               `pools[0].nodeSelector.zone: "b c" is not a label value; use up to 63 letters, digits, dashes, dots and underscores`,
		labels("{nodeSelectorTerms: []}"):   "pools[0].nodeSelector.nodeSelectorTerms: has no term; add one, or remove nodeSelector for a pool of every Node",
		labels("{nodeSelectorTerms: [{}]}"): "pools[0].nodeSelector.nodeSelectorTerms[0]: has no requirement, so it selects no Node; add one, or remove the term",
		labels("{nodeSelectorTerms: [a]}"):  `pools[0].nodeSelector.nodeSelectorTerms[0]: is the text "a"; write an object with matchExpressions, matchFields`,
		labels("{nodeSelectorTerms: [{matchLabels: {a: b}}]}"):                                        `pools[0].nodeSelector.nodeSelectorTerms[0]: unknown key "matchLabels"; use matchExpressions, matchFields`,
		labels("{nodeSelectorTerms: [{matchFields: []}], a: b}"):                                      `pools[0].nodeSelector: unknown key "a"; use nodeSelectorTerms`,
		labels("{nodeSelectorTerms: {}}"):                                                             "pools[0].nodeSelector.nodeSelectorTerms: is an object; write a list",
		expressions("a"):                                                                              `pools[0].nodeSelector.nodeSelectorTerms[0].matchExpressions[0]: is the text "a"; write an object with key, operator, values`,
		expressions("{key: zone}"):                                                                    "pools[0].nodeSelector.nodeSelectorTerms[0].matchExpressions[0]: lacks key or operator; write both, as in {key: zone, operator: In, values: [a, b]}",
		expressions("{key: zone, operator: Is}"):                                                      `pools[0].nodeSelector.nodeSelectorTerms[0].matchExpressions[0]: node selector: label "zone": unknown operator "Is"; use In, NotIn, Exists, DoesNotExist, Gt or Lt`,
		expressions("{key: zone, operator: Exists, value: a}"):                                        `pools[0].nodeSelector.nodeSelectorTerms[0].matchExpressions[0]: unknown key "value"; did you mean values?`,
		expressions("{key: zone, operator: Exists, values: [a]}"):                                     `pools[0].nodeSelector.nodeSelectorTerms[0].matchExpressions[0]: node selector: label "zone": Exists has 1 values; remove them`,
		expressions("{key: zone, operator: In}"):                                                      `pools[0].nodeSelector.nodeSelectorTerms[0].matchExpressions[0]: node selector: label "zone": In has no value; add one`,
		expressions("{key: zone, operator: In, values: [b c]}"):                                       `pools[0].nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values[0]: "b c" is not a label value; use up to 63 letters, digits, dashes, dots and underscores`,
		expressions("{key: zone, operator: In, values: a}"):                                           `pools[0].nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values: is the text "a"; write a list`,
		expressions("{key: cpus, operator: Gt, values: [64]}"):                                        "pools[0].nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values[0]: is the number 64; put it in quotes",
		expressions("{key: cpus, operator: Gt, values: [many]}"):                                      `pools[0].nodeSelector.nodeSelectorTerms[0].matchExpressions[0]: node selector: label "cpus": Gt "many": not a whole number`,
		expressions("{key: a b, operator: Exists}"):                                                   `pools[0].nodeSelector.nodeSelectorTerms[0].matchExpressions[0]: "a b" is not a label key; write one like topology.kubernetes.io/zone`,
		labels("{nodeSelectorTerms: [{matchFields: [{key: spec.x, operator: In}]}]}"):                 `pools[0].nodeSelector.nodeSelectorTerms[0].matchFields[0]: node selector: field "spec.x": a field must be metadata.name`,
		"firstFamily: ipv4":                                                                           `firstFamily: is the text "ipv4"; write IPv4 or IPv6`,
		"pools: [{name: a, ipv4: {ranges: [10.0.0.0/16]}}, {name: a, ipv4: {ranges: [10.1.0.0/16]}}]": "pools[1]: another pool is also called a; give each its own name",
	} {
		if _, err := Parse([]byte(text), nil); fmt.Sprint(err) != want {
			t.Errorf("%s:\n%v, want\n%s", text, err, want)
		}
	}
	for text, part := range map[string]string{
		"pools:\n- name: a\n  name: b": "line 3",
		"pools:\n  - name: a\n -":      "not YAML: line 2: did not find expected key",
		"pools:\n\t- name":             "line 2",
		strings.Repeat("[", 20000):     "not YAML",
		"a: &a [x]\nb: [*a, *a, *a, {": "not YAML",
	} {
		if _, err := Parse([]byte(text), nil); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%.40q: %v, want %s", text, err, part)
		}
	}
}

// FuzzParse checks that accepted pools work beside others.
func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte(one("a", "10.0.0.0/16")))
	f.Add([]byte("pools: [{name: a, ipv4: {ranges: [10.1.0.0/16]}, nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Gt, values: ['1']}]}]}}]"))
	f.Add([]byte("pools: [{name: a, ipv6: {ranges: ['fd00::/8'], blockBits: 64}}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		pools, err := Parse(text, []ipam.Pool{flagged})
		if err != nil {
			return
		}
		if _, err := ipam.New(append(pools, flagged)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// TestASecondDocumentIsRefused: the decoder would silently ignore a second document.
func TestASecondDocumentIsRefused(t *testing.T) {
	const pools = "pools:\n- name: a\n  ipv4: {ranges: [10.1.0.0/16]}\n"
	for text, want := range map[string]string{
		pools + "---\n" + pools:              "line 4: a second YAML document begins; write all pools into one",
		"---\n" + pools + "---\n":            "line 5: a second YAML document begins; write all pools into one",
		"# ours\n--- # first\n---\n" + pools: "line 3: a second YAML document begins; write all pools into one",
		"%YAML 1.1\n# ours\n\n---\n" + pools: "<nil>",
		pools + "...\n":                      "<nil>",
	} {
		if _, err := Parse([]byte(text), nil); fmt.Sprint(err) != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
