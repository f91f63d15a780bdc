package nodepools

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/ipam"
)

const (
	mostLabels       = 20
	mostTerms        = 100
	mostRequirements = 100 // of a term
	mostValues       = 100 // of a requirement
)

// terms is the only field of a Kubernetes NodeSelector.
const terms = "nodeSelectorTerms"

var (
	termFields        = []string{"matchExpressions", "matchFields"}
	requirementFields = []string{"key", "operator", "values"}
)

// selector returns the selector that v describes: labels, as in a Pod's nodeSelector, or
// terms, as in a Kubernetes NodeSelector.
func selector(v value) (*ipam.Selector, error) {
	if object, ok := v.is.(map[string]any); ok {
		of, has := object[terms]
		if _, isLabel := of.(string); has && !isLabel {
			return selectorOfTerms(v)
		}
	}
	return selectorOfLabels(v)
}

// selectorOfLabels returns a selector of the Nodes that have all of the labels.
func selectorOfLabels(v value) (*ipam.Selector, error) {
	labels, ok := v.is.(map[string]any)
	switch {
	case !ok:
		return nil, v.wrong("is %s; write labels, as in {topology.kubernetes.io/zone: a}", v.kind())
	case len(labels) == 0:
		return nil, v.wrong("has no label; add one, or remove nodeSelector for a pool of every Node")
	case len(labels) > mostLabels:
		return nil, v.wrong("has %d labels; the limit is %d", len(labels), mostLabels)
	}
	var term ipam.Term
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		of := value{v.at(key), labels[key]}
		if err := checkLabelKey(v, key); err != nil {
			return nil, err
		}
		text, err := labelValue(of)
		if err != nil {
			return nil, err
		}
		term.Labels = append(term.Labels, ipam.Requirement{Key: key, Operator: "In", Values: []string{text}})
	}
	return &ipam.Selector{Terms: []ipam.Term{term}}, nil
}

// selectorOfTerms returns a selector of the Nodes that meet one of the terms.
func selectorOfTerms(v value) (*ipam.Selector, error) {
	fields, err := v.fields(terms)
	if err != nil {
		return nil, err
	}
	items, err := fields[terms].items(mostTerms)
	if err != nil {
		return nil, err
	}
	s := new(ipam.Selector)
	for _, item := range items {
		t, err := termOf(item)
		if err != nil {
			return nil, err
		}
		s.Terms = append(s.Terms, t)
	}
	if len(s.Terms) == 0 {
		return nil, fields[terms].wrong("has no term; add one, or remove nodeSelector for a pool of every Node")
	}
	return s, nil
}

// termOf returns the term that v describes. It refuses a term without a requirement, which
// would select no Node.
func termOf(v value) (t ipam.Term, err error) {
	fields, err := v.fields(termFields...)
	if err != nil {
		return t, err
	}
	if t.Labels, err = requirements(fields["matchExpressions"], labelValue); err != nil {
		return t, err
	}
	if t.Fields, err = requirements(fields["matchFields"], value.text); err != nil {
		return t, err
	}
	if len(t.Labels)+len(t.Fields) == 0 {
		return t, v.wrong("has no requirement, so it selects no Node; add one, or remove the term")
	}
	for i, r := range t.Labels {
		at := value{path: fmt.Sprintf("%s.matchExpressions[%d]", v.path, i)}
		if err := checkLabelKey(at, r.Key); err != nil {
			return t, err
		}
		if err := check(at, ipam.Term{Labels: []ipam.Requirement{r}}); err != nil {
			return t, err
		}
	}
	for i, r := range t.Fields {
		if err := check(value{path: fmt.Sprintf("%s.matchFields[%d]", v.path, i)}, ipam.Term{Fields: []ipam.Requirement{r}}); err != nil {
			return t, err
		}
	}
	return t, nil
}

// check returns an error with the fix unless a term is valid. ClusterCIDRs have the same
// rules.
func check(v value, t ipam.Term) error {
	if err := (&ipam.Selector{Terms: []ipam.Term{t}}).Check(); err != nil {
		return v.wrong("%s", err)
	}
	return nil
}

// requirements returns the requirements in a list, or nil without a list.
func requirements(v value, read func(value) (string, error)) (all []ipam.Requirement, err error) {
	if v.path == "" {
		return nil, nil
	}
	items, err := v.items(mostRequirements)
	for _, item := range items {
		r, err := requirement(item, read)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, err
}

// requirement returns the requirement that v describes. read reads each of its values.
func requirement(v value, read func(value) (string, error)) (r ipam.Requirement, err error) {
	fields, err := v.fields(requirementFields...)
	if err != nil {
		return r, err
	}
	key, hasKey := fields["key"]
	operator, hasOperator := fields["operator"]
	if !hasKey || !hasOperator {
		return r, v.wrong("lacks key or operator; write both, as in {key: zone, operator: In, values: [a, b]}")
	}
	if r.Key, err = key.text(); err != nil {
		return r, err
	}
	if r.Operator, err = operator.text(); err != nil {
		return r, err
	}
	values, is := fields["values"]
	if !is {
		return r, nil
	}
	items, err := values.items(mostValues)
	for _, item := range items {
		text, err := read(item)
		if err != nil {
			return r, err
		}
		r.Values = append(r.Values, text)
	}
	return r, err
}

// checkLabelKey returns an error unless key is valid for a label.
func checkLabelKey(v value, key string) error {
	domain, word, prefixed := strings.Cut(key, "/")
	if !prefixed && isWord(key) || prefixed && isWord(word) && len(domain) <= 253 && isDomain(domain) {
		return nil
	}
	return v.wrong("%.80q is not a label key; write one like topology.kubernetes.io/zone", key)
}

func isDomain(text string) bool {
	return !slices.ContainsFunc(strings.Split(text, "."), func(part string) bool { return !isWord(part) || strings.Contains(part, "_") })
}

// labelValue returns a label's value.
func labelValue(v value) (string, error) {
	text, err := v.text()
	if err == nil && text != "" && !isWord(text) {
		err = v.wrong("%.80q is not a label value; use up to 63 letters, digits, dashes, dots and underscores", text)
	}
	return text, err
}

// isWord reports whether text can be a label's value, or the name in a label's key.
func isWord(text string) bool {
	alone := func(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' }
	if text == "" || len(text) > 63 || !alone(text[0]) || !alone(text[len(text)-1]) {
		return false
	}
	return !strings.ContainsFunc(text, func(c rune) bool { return c > 'z' || !alone(byte(c)) && !strings.ContainsRune("-._", c) })
}
