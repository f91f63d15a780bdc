package lifecycle

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/cloud"
)

func TestExplainsEachNode(t *testing.T) {
	inLab(t, func(l *lab) {
		l.workers(3)
		l.add("stopped", "ended", "stuck")
		bare := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "bare"}}
		l.API.Do(func() { l.API.Change("ADDED", bare) })
		l.cloud.SetState("stopped", cloud.Stopped)
		l.cloud.SetState("ended", cloud.Terminated)
		for _, name := range []string{"stopped", "ended", "stuck"} {
			l.SetReady(name, corev1.ConditionUnknown)
		}
		l.Begin()
		l.Pass(2 * time.Second)
		for name, want := range map[string]string{
			"worker-0": "ready, so it stays",
			"stopped":  "its instance is stopped; the Node has the taint",
			"ended":    "its instance is terminated, in 1 answer since",
			"stuck":    "not ready, and its instance runs; look at its kubelet",
			"bare":     "never deleted here: the Node has no providerID",
			"none":     "",
		} {
			text := ""
			l.Do(func() {
				for _, line := range l.c.Explain(name) {
					text += line.Text
				}
			})
			if !strings.Contains(text, want) || want == "" && text != "" {
				t.Errorf("%s: %q, want %q", name, text, want)
			}
		}
	})
}
