package cluster

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/kube/capi"
)

// The versions of Clusters, as indexes.
const (
	beta1 = 0
	beta2 = 1
)

func compare(a, b string) int { return strings.Compare(a, b) }

// The conditions that this controller sets.
const (
	infrastructureReady = "InfrastructureReady"
	initialized         = "ControlPlaneInitialized"
)

// isOurs reports whether a condition is this controller's.
func isOurs(condition string) bool {
	return condition == infrastructureReady || condition == initialized
}

// statusOf returns the status that a Cluster is to have, as a merge patch, or nil if it has it.
// none is why it has no infrastructure.
func statusOf(c capi.Cluster, i *infra, none string, k secretState, version int, now time.Time) map[string]any {
	contract := []capi.Contract{capi.Beta1, capi.Beta2}[version]
	wasProvisioned := c.Status.InfrastructureReady || c.Status.Initialization.Infrastructure
	wasInitialized := c.Status.Initialization.ControlPlane || isTrue(c.Status.Conditions, initialized)
	provisioned := wasProvisioned || i != nil && i.provisioned()
	up := wasInitialized || k.answers
	want := []capi.Condition{infraCondition(i, none), controlPlaneCondition(up, k)}
	for j := range want {
		want[j] = want[j].Form(contract, c.Metadata.Generation)
	}
	conditions := capi.Merge(c.Status.Conditions, want, isOurs, now)
	patch := make(map[string]any)
	if !capi.Same(c.Status.Conditions, conditions) {
		patch["conditions"] = conditions
	}
	phase := "Provisioning"
	if provisioned {
		phase = "Provisioned"
	}
	if c.Status.Phase != phase {
		patch["phase"] = phase
	}
	if version == beta1 && provisioned != c.Status.InfrastructureReady {
		patch["infrastructureReady"] = provisioned
	}
	if version == beta2 && (provisioned != c.Status.Initialization.Infrastructure || up != c.Status.Initialization.ControlPlane) {
		patch["initialization"] = map[string]any{"infrastructureProvisioned": provisioned, "controlPlaneInitialized": up}
	}
	if i != nil && i.provisioned() {
		if domains := domainsOf(i.Status.Domains); len(domains) > 0 && !reflect.DeepEqual(domains, domainsOf(c.Status.FailureDomains)) {
			patch["failureDomains"] = capi.Replace(c.Status.FailureDomains, formOf(domains, version))
		}
	}
	if len(patch) == 0 {
		return nil
	}
	return patch
}

func isTrue(all []capi.Condition, kind string) bool {
	for _, c := range all {
		if c.Type == kind {
			return c.Status == capi.True
		}
	}
	return false
}

// infraCondition mirrors the condition Ready of the infrastructure.
func infraCondition(i *infra, none string) capi.Condition {
	out := capi.Condition{Type: infrastructureReady, Status: capi.False, Severity: capi.Info, Reason: "InfrastructureDoesNotExist"}
	if i == nil {
		out.Message = none
		return out
	}
	for _, ready := range i.Status.Conditions {
		if ready.Type == "Ready" {
			out.Status, out.Reason, out.Message, out.Severity = ready.Status, ready.Reason, ready.Message, ready.Severity
			if out.Reason == "" {
				out.Reason = "ReportedByInfrastructure"
			}
			return out
		}
	}
	if out.Reason = "NotReady"; i.provisioned() {
		out.Status, out.Reason = capi.True, "Ready"
	}
	return out
}

func controlPlaneCondition(up bool, k secretState) capi.Condition {
	if up {
		return capi.Condition{Type: initialized, Status: capi.True, Reason: "Initialized"}
	}
	reason := "WaitingForControlPlane"
	if k.problem != "" {
		reason = "NoKubeconfig"
	}
	return capi.Condition{Type: initialized, Status: capi.False, Severity: capi.Info, Reason: reason, Message: k.problem + k.silent}
}

// text returns a patch for a plan, without anything secret.
func text(patch map[string]any) string {
	keys, err := json.Marshal(patch)
	if err != nil || len(keys) > 300 {
		return "conditions, phase and initialization"
	}
	return string(keys)
}
