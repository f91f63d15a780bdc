//go:build kube

package kubernetes

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

const cleanup = "service.kubernetes.io/load-balancer-cleanup"

// service creates a Service with a class, and returns its path.
func (l lab) service(namespace, name, kind string) string {
	l.t.Helper()
	spec := map[string]any{"type": kind, "ports": []any{map[string]any{"name": "http", "port": 80}}}
	if kind == "LoadBalancer" {
		spec["loadBalancerClass"] = "tulle.net/nlb"
	}
	path := "/api/v1/namespaces/" + namespace + "/services"
	l.Do(http.MethodPost, path, map[string]any{"metadata": map[string]any{"name": name, "finalizers": []string{"example.org/mine"}}, "spec": spec}, nil)
	return path + "/" + name
}

// TestControllerPolicyOfServices writes with the token of tulle-controller what its service
// controller writes, and tries what it does not.
func TestControllerPolicyOfServices(t *testing.T) {
	l, token := controlled(t, onAWS(t, "  controllers: [nodeipam, service]"))
	web, inside := l.service("default", "web", "LoadBalancer"), l.service("default", "inside", "ClusterIP")
	ingress := func(all ...any) map[string]any {
		return status("loadBalancer", map[string]any{"ingress": all})
	}
	finalizers := func(all ...string) map[string]any {
		return map[string]any{"metadata": map[string]any{"finalizers": append([]string{}, all...)}}
	}
	spec := func(name string, value any) map[string]any {
		return map[string]any{"spec": map[string]any{name: value}}
	}
	patch := func(what, path string, body map[string]any, refused string) write {
		return write{what, http.MethodPatch, path, merging, body, refused}
	}
	host := map[string]any{"hostname": "a.elb.eu-central-1.amazonaws.com"}
	kerneltest.Eventually(t, patience, func() error { // the policy is in force
		code, said := l.call(token, http.MethodPatch, web+"?dryRun=All", merging, labels("a", "b"))
		if code == http.StatusOK {
			return fmt.Errorf("%d %s", code, said)
		}
		return nil
	})
	l.try(token, []write{
		patch("its finalizer", web, finalizers("example.org/mine", cleanup), ""),
		patch("a host name", web+"/status", ingress(host), ""),
		patch("no host name", web+"/status", ingress(), ""),
		patch("a host name again", web+"/status", ingress(host), ""),
		patch("nothing", web, map[string]any{}, ""),
		patch("its finalizer away", web, finalizers("example.org/mine"), ""),
		patch("its finalizer elsewhere", inside, finalizers("example.org/mine", cleanup), "only to Services of the type LoadBalancer"),
		patch("another finalizer away", web, finalizers(), only+"the finalizer"),
		patch("another finalizer", web, finalizers("example.org/mine", "example.org/new"), only+"the finalizer"),
		patch("an address", web+"/status", ingress(map[string]any{"ip": "192.0.2.1"}), "only host names"),
		patch("a condition", web+"/status", status("conditions", []any{map[string]any{
			"type": "x", "status": "True", "reason": "x", "message": "", "lastTransitionTime": "2031-01-01T00:00:00Z",
		}}), only+"the load balancer"),
		patch("where it leads", web, spec("selector", map[string]any{"app": "other"}), only+"one finalizer"),
		patch("external addresses", web, spec("externalIPs", []string{"192.0.2.1"}), only+"one finalizer"),
		patch("its type", web, spec("type", "ClusterIP"), only+"one finalizer"),
		patch("an annotation", web, annotate("example.org/new", "x"), only+"finalizers in a Service's metadata"),
		patch("an annotation by the status", web+"/status", annotate("example.org/new", "x"), only+"finalizers in a Service's metadata"),
		patch("a label", web, labels("a", "b"), only+"finalizers in a Service's metadata"),
		{"deletion", http.MethodDelete, web, asJSON, nil, "neither create nor delete Services"},
		{"a new one", http.MethodPost, "/api/v1/namespaces/default/services", asJSON, map[string]any{
			"metadata": map[string]any{"name": "new"}, "spec": map[string]any{"ports": []any{map[string]any{"port": 80}}},
		}, "neither create nor delete Services"},
	})
	if code, said := l.call(adminToken, http.MethodPatch, web, merging, labels("a", "b")); code != http.StatusOK {
		t.Errorf("an admin's label: %d %s", code, said)
	}
}

// TestServiceControllerUsesEveryRightAndNoOther runs two replicas with the chart's rights,
// until Services in two namespaces have load balancers and lose them, and compares the
// rights with their requests.
func TestServiceControllerUsesEveryRightAndNoOther(t *testing.T) {
	account := awstest.New(t)
	tags := map[string]string{"kubernetes.io/cluster/prod": "owned"}
	n := account.Default()
	for _, id := range n.Subnets {
		account.Tag(id, map[string]string{"kubernetes.io/cluster/prod": "shared", "kubernetes.io/role/elb": "1"})
	}
	account.SetRoute(n.Main, "0.0.0.0/0", "igw-0123456789abcdef0")
	account.Launch(awstest.Launch{Count: 2, Tags: tags})
	w := newWitness(t, onAWS(t, "  controllers: [nodeipam, service]"), account.Env()...)
	w.l.Do(http.MethodPost, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": "shop"}}, nil)
	balanced := func(path string) {
		t.Helper()
		kerneltest.Eventually(t, patience, func() error {
			var s struct {
				Metadata struct{ Finalizers []string }
				Status   struct {
					LoadBalancer struct{ Ingress []struct{ Hostname string } }
				}
			}
			w.l.Do(http.MethodGet, path, nil, &s)
			if in := s.Status.LoadBalancer.Ingress; len(in) != 1 || !strings.Contains(in[0].Hostname, ".elb.") || !strings.Contains(fmt.Sprint(s.Metadata.Finalizers), cleanup) {
				return fmt.Errorf("%s: %+v", path, s)
			}
			return nil
		})
	}
	first := w.replica(true)
	w.l.node("a")
	w.awaitPodCIDR("a")
	web := w.l.service("default", "web", "LoadBalancer")
	balanced(web)
	w.replica(false)
	w.await(right{"list", "services", "", ""})
	first.End(syscall.SIGKILL)
	shop := w.l.service("shop", "web", "LoadBalancer")
	balanced(shop)
	w.await(right{"create", "events", "", ""})
	for _, path := range []string{web, shop} {
		w.l.Do(http.MethodDelete, path, nil, nil)
	}
	kerneltest.Eventually(t, patience, func() error {
		if all := account.Balancers(); len(all) > 0 || len(account.TargetGroups()) > 0 {
			return fmt.Errorf("%d load balancers", len(all))
		}
		for _, path := range []string{web, shop} {
			var s struct{ Metadata struct{ Finalizers []string } }
			w.l.Do(http.MethodGet, path, nil, &s)
			if strings.Contains(fmt.Sprint(s.Metadata.Finalizers), cleanup) {
				return fmt.Errorf("%s has the finalizers %q", path, s.Metadata.Finalizers)
			}
		}
		return nil
	})
	if used := w.used(); !maps.Equal(used, w.granted) {
		t.Errorf("the replicas used\n%v\nand may\n%v", used, w.granted)
	}
	for _, path := range []string{web, "/api/v1/namespaces/default/endpoints", "/api/v1/namespaces/shop/secrets"} {
		if code, said := w.l.call(w.token, http.MethodGet, path, asJSON, nil); code != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, code, said)
		}
	}
}
