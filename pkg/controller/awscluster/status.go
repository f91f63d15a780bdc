package awscluster

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/kube/capi"
)

// status is what is read of an AWSCluster's status.
type status struct {
	Ready          bool `json:"ready"`
	Initialization struct {
		Provisioned bool `json:"provisioned"`
	} `json:"initialization"`
	Conditions []capi.Condition `json:"conditions"`
	Domains    json.RawMessage  `json:"failureDomains"`
	Network    json.RawMessage  `json:"networkStatus"`
}

// readStatus reads a status. One that cannot be read is empty, and written again.
func readStatus(text json.RawMessage) (s status) {
	if len(text) == 0 || json.Unmarshal(text, &s) != nil {
		return status{}
	}
	return s
}

// provisioned reports whether the network was ready once, by either contract.
func (s status) provisioned() bool { return s.Ready || s.Initialization.Provisioned }

// wantedStatus is what a status is to have. What is not known stays.
type wantedStatus struct {
	provisioned bool
	domains     []domain
	network     *networkStatus
	conditions  []capi.Condition
}

// wanted returns what the status is to have.
func (c *Controller) wanted(n *network, now time.Time) (w wantedStatus) {
	w.provisioned = n.provisioned()
	if s := n.seen; s != nil && !s.job.end {
		w.domains, w.network = s.facts.domains, s.facts.network
	}
	all, known := n.conditions()
	if !known {
		w.conditions = n.status.Conditions
		return w
	}
	for i := range all {
		all[i] = all[i].Form(c.contract, n.Generation)
	}
	w.conditions = capi.Merge(n.status.Conditions, all, isOurs, now)
	return w
}

// failureDomain is a failure domain of both contracts: a map's value has no name.
type failureDomain struct {
	Name         string `json:"name,omitempty"`
	ControlPlane bool   `json:"controlPlane"`
}

// form returns failure domains in the form of a contract.
func form(all []domain, to capi.Contract) any {
	if to == capi.Beta1 {
		m := make(map[string]failureDomain)
		for _, d := range all {
			m[d.zone] = failureDomain{ControlPlane: d.controlPlane}
		}
		return m
	}
	list := []failureDomain{}
	for _, d := range all {
		list = append(list, failureDomain{d.zone, d.controlPlane})
	}
	return list
}

// readDomains reads failure domains in the form of a contract, and reports whether they have
// it.
func readDomains(text json.RawMessage, from capi.Contract) (all []domain, ok bool) {
	if len(text) == 0 || string(text) == "null" {
		return nil, true
	}
	if from == capi.Beta1 {
		var m map[string]failureDomain
		if json.Unmarshal(text, &m) != nil {
			return nil, false
		}
		for _, zone := range slices.Sorted(maps.Keys(m)) {
			all = append(all, domain{zone, m[zone].ControlPlane})
		}
		return all, true
	}
	var list []failureDomain
	if json.Unmarshal(text, &list) != nil {
		return nil, false
	}
	for _, d := range list {
		all = append(all, domain{d.Name, d.ControlPlane})
	}
	slices.SortFunc(all, func(a, b domain) int { return strings.Compare(a.zone, b.zone) })
	return all, true
}

// isIn reports whether a status has what it is to have. A server drops fields that its
// CustomResourceDefinition does not have, so only those of its contract are compared.
func (w wantedStatus) isIn(s status, by capi.Contract) bool {
	ready := s.Ready
	if by == capi.Beta2 {
		ready = s.Initialization.Provisioned
	}
	if ready != w.provisioned || !capi.Same(s.Conditions, w.conditions) {
		return false
	}
	if w.network != nil && !reflect.DeepEqual(readNetworkStatus(s.Network), *w.network) {
		return false
	}
	if len(w.domains) == 0 {
		return true
	}
	have, ok := readDomains(s.Domains, by)
	return ok && slices.Equal(have, w.domains)
}

// onlyProgress reports whether nothing but the texts of conditions differ.
func (w wantedStatus) onlyProgress(s status) bool {
	if s.provisioned() != w.provisioned || len(s.Conditions) != len(w.conditions) {
		return false
	}
	return !slices.ContainsFunc(w.conditions, func(c capi.Condition) bool {
		return !slices.ContainsFunc(s.Conditions, func(h capi.Condition) bool {
			return h.Type == c.Type && h.Status == c.Status && h.Reason == c.Reason
		})
	})
}

// patch returns the status as a merge patch: in the form of its contract, and with the fields
// in which the other contract tells the same. have is the status that there is.
func (w wantedStatus) patch(by capi.Contract, have status) map[string]any {
	p := map[string]any{
		"ready": w.provisioned, "initialization": map[string]any{"provisioned": w.provisioned}, "conditions": w.conditions,
	}
	if len(w.domains) > 0 {
		p["failureDomains"] = capi.Replace(have.Domains, form(w.domains, by))
	}
	if w.network != nil {
		p["networkStatus"] = capi.Replace(have.Network, w.network)
	}
	other := make([]capi.Condition, 0, len(w.conditions))
	to := capi.Beta2
	if by == capi.Beta2 {
		to = capi.Beta1
	}
	for _, c := range w.conditions {
		other = append(other, c.Form(to, c.Observed))
	}
	if by == capi.Beta1 {
		p["v1beta2"] = map[string]any{"conditions": other}
	} else {
		p["deprecated"] = map[string]any{"v1beta1": map[string]any{"conditions": other}}
	}
	return p
}

// summary returns what a status says, for a plan.
func (w wantedStatus) summary() string {
	text := "not provisioned"
	if w.provisioned {
		text = "provisioned"
	}
	for _, c := range w.conditions {
		if c.Type == readyCondition {
			text += ", " + c.Type + "=" + c.Status + " (" + c.Reason + ")"
		}
	}
	return text
}
