package capi

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Condition is a condition of an object, in the form of both contracts: the one of v1beta1
// has Severity, and the one of v1beta2 ObservedGeneration.
type Condition struct {
	Type     string `json:"type"`
	Status   string `json:"status"`
	Severity string `json:"severity,omitempty"`
	Observed int64  `json:"observedGeneration,omitempty"`
	Changed  string `json:"lastTransitionTime"`
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
	// blank is set if an empty message is there. The contract v1beta2 requires that, and v1beta1
	// forbids it.
	blank bool
}

// bare is a Condition that encoding/json reads and writes by its fields.
type bare Condition

// MarshalJSON implements json.Marshaler.
func (c Condition) MarshalJSON() ([]byte, error) {
	if !c.blank {
		return json.Marshal(bare(c))
	}
	return json.Marshal(struct {
		bare
		Message string `json:"message"`
	}{bare(c), c.Message})
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Condition) UnmarshalJSON(text []byte) error {
	var message struct{ Message *string }
	if err := json.Unmarshal(text, (*bare)(c)); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &message); err != nil {
		return err
	}
	c.blank = message.Message != nil && *message.Message == ""
	return nil
}

// The states of a Condition.
const (
	True    = "True"
	False   = "False"
	Unknown = "Unknown"
)

// The severities of a Condition of v1beta1 that is False.
const (
	Error   = "Error"
	Warning = "Warning"
	Info    = "Info"
)

// longestMessage limits the message of a Condition. The API allows 32768 bytes.
const longestMessage = 8000

// Contract is a version of Cluster API's contract, which a CustomResourceDefinition names in
// its labels.
type Contract string

// The versions.
const (
	Beta1 Contract = "v1beta1"
	Beta2 Contract = "v1beta2"
)

// ContractOf returns the newest contract that the labels of a CustomResourceDefinition name
// for a version of its objects. Without any it is v1beta1, as in old releases.
func ContractOf(labels map[string]string, version string) Contract {
	for _, c := range []Contract{Beta2, Beta1} {
		if slices.Contains(strings.Split(labels[Group+"/"+string(c)], "_"), version) {
			return c
		}
	}
	return Beta1
}

// Form returns a Condition in the form of a contract.
func (c Condition) Form(to Contract, generation int64) Condition {
	if len(c.Message) > longestMessage {
		c.Message = strings.ToValidUTF8(c.Message[:longestMessage], "") + " …"
	}
	c.blank = to == Beta2 && c.Message == ""
	if to == Beta2 {
		c.Severity, c.Observed = "", generation
		return c
	}
	if c.Observed = 0; c.Status != False {
		c.Severity = ""
	}
	return c
}

// Merge returns the conditions that an object is to have: those of have that are not ours as
// they are, and the wanted ones. ours reports whether a type is ours. A Condition keeps its
// time while its status stays.
func Merge(have, want []Condition, ours func(string) bool, now time.Time) (all []Condition) {
	for _, h := range have {
		if !ours(h.Type) {
			all = append(all, h)
		}
	}
	for _, w := range want {
		w.Changed = now.UTC().Format(time.RFC3339)
		if i := slices.IndexFunc(have, func(h Condition) bool { return h.Type == w.Type }); i >= 0 && have[i].Status == w.Status && have[i].Changed != "" {
			w.Changed = have[i].Changed
		}
		all = append(all, w)
	}
	return all
}

// Same reports whether two lists have the same conditions, in whatever order.
func Same(a, b []Condition) bool {
	if len(a) != len(b) {
		return false
	}
	for _, c := range a {
		if !slices.Contains(b, c) {
			return false
		}
	}
	return true
}
