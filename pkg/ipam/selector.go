package ipam

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Selector selects the Nodes that meet one of its terms, as a Kubernetes NodeSelector
// does.
type Selector struct{ Terms []Term }

// Term is met by a Node that meets all requirements. No Node meets a Term without
// requirements.
type Term struct{ Labels, Fields []Requirement }

// Requirement is a condition on a label, or on the field metadata.name.
type Requirement struct {
	Key      string
	Operator string // In, NotIn, Exists, DoesNotExist, Gt or Lt
	Values   []string
}

// nameField is the only field that a Requirement may name.
const nameField = "metadata.name"

// mostRequirements limits a Selector, because the Book compares every waiting Node with all
// requirements.
const mostRequirements = 1000

// match reports whether s selects a Node, and how many requirements the terms that the Node
// meets have.
func (s *Selector) match(name string, labels map[string]string) (requirements int, ok bool) {
	for _, t := range s.Terms {
		if t.match(name, labels) {
			requirements, ok = requirements+t.size(), true
		}
	}
	return requirements, ok
}

// size returns the number of requirements.
func (t Term) size() int { return len(t.Labels) + len(t.Fields) }

func (t Term) match(name string, labels map[string]string) bool {
	for _, r := range t.Labels {
		if value, has := labels[r.Key]; !r.match(value, has) {
			return false
		}
	}
	for _, r := range t.Fields {
		if !r.match(name, true) {
			return false
		}
	}
	return t.size() > 0
}

func (r Requirement) match(value string, has bool) bool {
	switch r.Operator {
	case "In":
		return has && slices.Contains(r.Values, value)
	case "NotIn":
		return !has || !slices.Contains(r.Values, value)
	case "Exists":
		return has
	case "DoesNotExist":
		return !has
	}
	got, err := strconv.ParseInt(value, 10, 64)
	limit, _ := strconv.ParseInt(r.Values[0], 10, 64) // check has parsed it
	return has && err == nil && (r.Operator == "Gt" && got > limit || r.Operator == "Lt" && got < limit)
}

// Check returns an error with the fix unless s is valid.
func (s *Selector) Check() error {
	n := 0
	for _, t := range s.Terms {
		n += t.size()
	}
	if n > mostRequirements {
		return fmt.Errorf("node selector: has %d requirements, the limit is %d; use fewer requirements", n, mostRequirements)
	}
	for _, t := range s.Terms {
		for _, r := range t.Labels {
			if err := r.check(); err != nil {
				return err
			}
		}
		for _, r := range t.Fields {
			switch {
			case r.Key != nameField:
				return fmt.Errorf("node selector: field %.100q: a field must be %s", r.Key, nameField)
			case r.Operator != "In" && r.Operator != "NotIn" || len(r.Values) != 1:
				return fmt.Errorf("node selector: field %s: %.20q with %d values; use In or NotIn with one value", nameField, r.Operator, len(r.Values))
			}
		}
	}
	return nil
}

func (r Requirement) check() error {
	at := fmt.Sprintf("node selector: label %.100q: ", r.Key)
	switch r.Operator {
	case "In", "NotIn":
		if len(r.Values) == 0 {
			return fmt.Errorf("%s%s has no value; add one", at, r.Operator)
		}
	case "Exists", "DoesNotExist":
		if len(r.Values) > 0 {
			return fmt.Errorf("%s%s has %d values; remove them", at, r.Operator, len(r.Values))
		}
	case "Gt", "Lt":
		if len(r.Values) != 1 {
			return fmt.Errorf("%s%s has %d values; give it one", at, r.Operator, len(r.Values))
		}
		if _, err := strconv.ParseInt(r.Values[0], 10, 64); err != nil {
			return fmt.Errorf("%s%s %.100q: not a whole number", at, r.Operator, r.Values[0])
		}
	default:
		return fmt.Errorf("%sunknown operator %.20q; use In, NotIn, Exists, DoesNotExist, Gt or Lt", at, r.Operator)
	}
	return nil
}

// text returns s in the notation of label selectors. It does not depend on the order of the
// parts.
func (s *Selector) text() string {
	var terms []string
	for _, t := range s.Terms {
		var parts []string
		for _, r := range slices.Concat(t.Labels, t.Fields) {
			parts = append(parts, r.text())
		}
		slices.Sort(parts)
		terms = append(terms, strings.Join(parts, ","))
	}
	slices.Sort(terms)
	return strings.Join(terms, " or ")
}

func (r Requirement) text() string {
	values := strings.Join(slices.Sorted(slices.Values(r.Values)), ",")
	switch r.Operator {
	case "In":
		return r.Key + " in (" + values + ")"
	case "NotIn":
		return r.Key + " notin (" + values + ")"
	case "Exists":
		return r.Key
	case "DoesNotExist":
		return "!" + r.Key
	case "Gt":
		return r.Key + ">" + values
	default:
		return r.Key + "<" + values
	}
}
