package awsnet

import (
	"fmt"
	"strings"
	"testing"
)

// TestPortOfTheAPIServers: another port than 6443 is in the listener, the health check and the
// rules, and a file has it in its endpoint.
func TestPortOfTheAPIServers(t *testing.T) {
	m, err := ParseFile([]byte(fileOf("controlPlaneEndpoint: {port: 8443}\nbastion: {enabled: true}")))
	if err != nil || m.Spec.APIPort != 8443 {
		t.Fatalf("%v, port %d", err, m.Spec.APIPort)
	}
	n, problems := Complete(m.Spec, zones)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if p := n.Balancers[0].Ports[0]; p.Port != 8443 || p.Health.Port != "8443" {
		t.Errorf("%+v", p)
	}
	found := make(map[Kind]bool)
	for key, w := range Desired(n) {
		text := fmt.Sprintf("%s %+v", key, w.Object)
		if strings.Contains(text, "6443") {
			t.Errorf("%s", text)
		}
		found[key.Kind] = found[key.Kind] || strings.Contains(text, "8443")
	}
	for _, kind := range []Kind{KindListener, KindTargetGroup, KindRule} {
		if !found[kind] {
			t.Errorf("no %s has the port", kind)
		}
	}
	if usual, _ := Complete(specOf(t, "natGateways: Single"), zones); usual.Balancers[0].Ports[0].Port != 6443 {
		t.Errorf("%+v", usual.Balancers[0].Ports)
	}
	for text, want := range map[string]string{
		"{port: api}":   "spec.controlPlaneEndpoint:",
		"{port: 70000}": "spec.controlPlaneEndpoint.port: 70000; use 1 to 65535",
		"{port: -1}":    "spec.controlPlaneEndpoint.port: -1; use 1 to 65535",
	} {
		m, err := ParseFile([]byte(fileOf("controlPlaneEndpoint: " + text)))
		if said := fmt.Sprint(err, Check(m.Spec, nil)); !strings.Contains(said, want) {
			t.Errorf("%s: %s", text, said)
		}
	}
}
