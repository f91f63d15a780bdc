//go:build kubelet

package kubelettest

import "testing"

func TestBoot(t *testing.T) {
	k := newKubernetes(t, 2, "10.244.0.0/16")
	k.awaitNodes("Ready", "False")
	t.Log(k.kubectl("get nodes -o wide"))
	t.Log(k.kubectl("get pods -A -o wide"))
	t.Log(k.kubectl("get events -A"))
}
