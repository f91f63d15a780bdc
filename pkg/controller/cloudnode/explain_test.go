package cloudnode

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
)

// explain returns the controller's explanation of a Node, with "+" before each line that is OK.
func (l *lab) explain(name string) (text string) {
	l.Helper()
	l.Do(func() {
		for _, line := range l.c.Explain(name) {
			text += fmt.Sprintf("%s%s: %s\n", map[bool]string{true: "+", false: "-"}[line.OK], line.What, line.Text)
		}
	})
	return text
}

func TestExplainsEachNode(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("fine")
		l.register("new")
		l.register("bare", func(n *corev1.Node) { n.Spec.Taints = nil })
		l.cloud.Launch("requests")
		l.register("requests", withIP("192.0.2.1"))
		l.cloud.Launch("gone", func(i *cloud.Instance) { i.State = cloud.Terminated })
		l.register("gone", withID(cloudtest.ProviderID("gone")))
		l.Pass(3 * time.Second)
		for name, parts := range map[string][]string{
			"none":     nil,
			"fine":     {"+instance: i-fine is running: fake.large in fake-1a, as of 00:00:01 UTC", "+taint " + Taint + ": removed", "+addresses: 172.20.0.1, 198.51.0.1"},
			"new":      {"-instance: there is no instance of new", "-taint " + Taint + ": the cloud shows no instance of the Node, so the Node keeps its taint", "-addresses: unknown"},
			"bare":     {"+instance: the Node has neither a providerID nor the taint"},
			"requests": {"+instance: i-requests", "-taint " + Taint + ": the kubelet requests the address 192.0.2.1", "-addresses: the kubelet requests the address 192.0.2.1"},
			"gone":     {"-instance: instance i-gone is terminated; delete the Node"},
		} {
			text := l.explain(name)
			for _, p := range parts {
				if !strings.Contains(text, p) {
					t.Errorf("%s: %q lacks %q", name, text, p)
				}
			}
			if parts == nil && text != "" {
				t.Errorf("%s: %q", name, text)
			}
		}
		l.cloud.Do(func() { l.cloud.Revoked = true })
		l.register("unanswered")
		l.Pass(3 * time.Second)
		if text := l.explain("unanswered"); !strings.Contains(text, "-instance: the cloud has not answered about the Node's name yet") {
			t.Errorf("unanswered: %q", text)
		}
	})
}
