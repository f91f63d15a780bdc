package apitest

import (
	"fmt"
	"net"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// settleCIDRs sets both fields for podCIDRs. An API server believes podCIDR if the two
// differ.
func settleCIDRs(n *corev1.Node) {
	s := &n.Spec
	switch {
	case s.PodCIDR != "" && (len(s.PodCIDRs) == 0 || s.PodCIDRs[0] != s.PodCIDR):
		s.PodCIDRs = []string{s.PodCIDR}
	case len(s.PodCIDRs) > 0:
		s.PodCIDR = s.PodCIDRs[0]
	}
}

// validate returns why the server does not accept an object, or nil. before is the
// object that it replaces, or nil.
func (t target) validate(o, before Object) *metav1.Status {
	if before != nil && o.GetUID() != before.GetUID() {
		return t.invalid("metadata.uid", fmt.Sprintf("Invalid value: %q: field is immutable", o.GetUID()))
	}
	switch o := o.(type) {
	case *corev1.Node:
		old, _ := before.(*corev1.Node)
		return t.validateNode(o, old)
	case *unstructured.Unstructured:
		return t.validateOther(o)
	}
	return nil
}

func (t target) validateNode(n, before *corev1.Node) *metav1.Status {
	families := make(map[bool]bool)
	for i, text := range n.Spec.PodCIDRs {
		ip, _, err := net.ParseCIDR(text)
		if err != nil {
			return t.invalid(fmt.Sprintf("spec.podCIDRs[%d]", i), fmt.Sprintf("Invalid value: %q: must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)", text))
		}
		families[ip.To4() != nil] = true
	}
	if len(n.Spec.PodCIDRs) > len(families) {
		return t.invalid("spec.podCIDRs", "Invalid value: may specify no more than one CIDR for each IP family")
	}
	if before == nil {
		return nil
	}
	if len(before.Spec.PodCIDRs) > 0 && !slices.Equal(before.Spec.PodCIDRs, n.Spec.PodCIDRs) {
		return t.invalid("spec.podCIDRs", `Forbidden: node updates may not change podCIDR except from "" to valid`)
	}
	if id := before.Spec.ProviderID; id != "" && id != n.Spec.ProviderID {
		return t.invalid("spec.providerID", `Forbidden: node updates may not change providerID except from "" to valid`)
	}
	return nil
}

func (t target) validateOther(o *unstructured.Unstructured) *metav1.Status {
	switch t.resource {
	case leases:
		var l coordinationv1.Lease
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &l); err != nil {
			return status(apierrors.NewBadRequest(err.Error()))
		}
		if n := l.Spec.LeaseDurationSeconds; n != nil && *n <= 0 {
			return t.invalid("spec.leaseDurationSeconds", fmt.Sprintf("Invalid value: %d: must be greater than 0", *n))
		}
		if n := l.Spec.LeaseTransitions; n != nil && *n < 0 {
			return t.invalid("spec.leaseTransitions", fmt.Sprintf("Invalid value: %d: must be greater than or equal to 0", *n))
		}
	case events:
		about, _, _ := unstructured.NestedString(o.Object, "involvedObject", "namespace")
		if about == "" && t.namespace != metav1.NamespaceDefault && t.namespace != metav1.NamespaceSystem || about != "" && about != t.namespace {
			return t.invalid("involvedObject.namespace", fmt.Sprintf("Invalid value: %q: does not match event.namespace", about))
		}
	}
	return nil
}
