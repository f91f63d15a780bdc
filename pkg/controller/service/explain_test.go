package service

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloudbalancer"
)

// explained returns an explanation for people, a line each.
func (l *lab) explained(name string) (all []string) {
	l.Helper()
	parts, err := l.Engine.Explain(l.Context(), name)
	if err != nil {
		l.Error(err)
	}
	for _, part := range parts {
		for _, line := range part.Lines {
			all = append(all, fmt.Sprintf("%s %s: %s", pick(line.OK, "ok", "NOT"), line.What, line.Text))
		}
	}
	return all
}

// wantLines fails unless an explanation has lines with these beginnings, in this order.
func (l *lab) wantLines(name string, want ...string) {
	l.Helper()
	all := l.explained(name)
	rest := all
	for _, w := range want {
		i := slices.IndexFunc(rest, func(line string) bool { return strings.HasPrefix(line, w) })
		if i < 0 {
			l.Errorf("%s: no %q in order in\n%s", name, w, strings.Join(all, "\n"))
			return
		}
		rest = rest[i+1:]
	}
}

// dry makes a lab preview.
func dry(o *Options) { o.DryRun = true }

// The explanation of a Service says what it has, what blocks it, and all that is to be
// written, in order. It reads the details of that Service alone, and writes nothing.
func TestExplanationShowsWhatComesNext(t *testing.T) {
	inLab(t, func(l *lab) {
		l.add("web")
		l.add("wrong", annotate("scheme", "public"))
		l.node(3, func(n *corev1.Node) { n.Spec.ProviderID = "" })
		l.Engine.Follow()
		l.Pass(10 * time.Second)
		for range 2 { // it changes nothing that it shows
			l.wantLines("default/web", "NOT Service: pending", "NOT finalizer", "NOT load balancer: none yet",
				"ok Nodes: 2 of 3 can be targets; worker-3: the Node has no providerID", "NOT status: no host name yet",
				"NOT next: add the finalizer", "NOT then: create", "NOT then: register i-worker-1, i-worker-2", "NOT then: create internet-facing network load balancer", "NOT then: lead TCP port 80")
		}
		l.wantLines("default/wrong", "NOT Service: annotation", "NOT next: add the finalizer")
		if len(l.cloud.Changes()) > 0 || l.finalized("web") {
			t.Errorf("%v were made", l.cloud.Changes())
		}
	}, dry)
}

// Without a Node that can be a target, the explanation names what is wrong with Nodes.
func TestExplanationNamesNodesThatCannotBeTargets(t *testing.T) {
	inLab(t, func(l *lab) {
		l.add("web", annotate("target-node-labels", "pool=a"))
		l.node(3, func(n *corev1.Node) { n.Labels["pool"], n.Labels[ExcludeLabel] = "a", "" })
		l.Engine.Follow()
		l.Pass(10 * time.Second)
		l.wantLines("default/web", "NOT Nodes: 0 of 1 can be targets, with the labels of the annotation; worker-3: left out")
	}, dry)
}

// What a Service has is shown with its state, and the preview names what differs.
func TestExplanationOfWhatIsThere(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("web")
		l.Pass(10 * time.Second)
		l.wantLines("default/web", "ok Service: balanced", "ok finalizer", "ok load balancer a", "ok listener TCP 80", "ok target group", "ok Nodes: 2 of 2", "ok status: a")
		l.Kill()
		l.change("web", annotate("cross-zone-load-balancing-enabled", "true"))
		l.options.DryRun = true
		l.add("other", port(30090))
		reads := l.cloud.Reads()["Details"]
		l.options.Only = "default/web"
		l.start()
		l.Engine.Follow()
		l.Pass(10 * time.Second)
		l.wantLines("default/web", "ok load balancer a", "ok Nodes: 2 of 2", "NOT next: set load_balancing.cross_zone.enabled=true")
		if n := l.cloud.Reads()["Details"] - reads; n != 1 {
			t.Errorf("%d readings of details", n)
		}
		l.delete("web")
		l.Pass(10 * time.Second)
		l.wantLines("default/web", "NOT Service: leaving", "ok finalizer", "NOT load balancer a", "NOT next: delete", "NOT then: delete")
	})
}

// A balancer without a Service is explained by its name: what goes with it, in the order in
// which it can be removed. Nothing else does.
func TestExplanationOfALeftover(t *testing.T) {
	const uid = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
	inLab(t, func(l *lab) {
		l.Begin()
		own := func(d map[string]any) { d["metadata"].(map[string]any)["uid"] = uid }
		l.add("web", own)
		l.add("other", port(30090))
		l.Pass(10 * time.Second)
		l.Kill()
		for _, name := range []string{"web", "other"} { // by force, without the finalizer
			l.put("DELETED", name, l.API.Object(path(name)))
		}
		l.options.DryRun, l.options.Only, l.options.Region = true, cloudbalancer.BalancerName(uid), "eu-central-1"
		l.start()
		l.Engine.Follow()
		l.Pass(10 * time.Second)
		l.wantLines(l.options.Only, "NOT leftover: it is of Service default/web, which does not exist", "NOT load balancer: aws elbv2 delete-load-balancer --load-balancer-arn lb-",
			"NOT target group: aws elbv2 delete-target-group", "NOT rules: remove the rules of sg-nodes", "NOT security group: aws ec2 delete-security-group")
		all := l.explained(l.options.Only)
		if len(all) != 5 {
			t.Errorf("%s", strings.Join(all, "\n"))
		}
		for _, line := range all {
			if strings.Contains(line, ": aws ") && !strings.HasSuffix(line, " --region eu-central-1") {
				t.Errorf("%q names no region", line)
			}
		}
		if all := l.explained("a0000000000000000000000000000000"); len(all) > 0 {
			t.Errorf("another name: %v", all)
		}
	})
}

// A target group with targets that all fail is not done, and the reason is shown.
func TestTargetsAreShownWithTheirReasons(t *testing.T) {
	for _, x := range []struct {
		targets []cloud.Target
		want    string
		works   bool
	}{
		{nil, "no targets", false},
		{[]cloud.Target{{ID: "i-1", State: "healthy", Why: "fine"}, {ID: "i-2", State: "unhealthy", Why: "Health checks failed"}}, "1 healthy, 1 unhealthy (i-2: Health checks failed)", true},
		{[]cloud.Target{{ID: "i-1", State: "unhealthy"}, {ID: "i-2", State: "unhealthy", Why: "no answer"}}, "2 unhealthy (i-2: no answer)", false},
		{[]cloud.Target{{ID: "i-1", State: "initial"}}, "1 initial", true},
	} {
		if got, works := targetsIn(cloud.TargetGroup{Targets: x.targets}); got != x.want || works != x.works {
			t.Errorf("%v: %q, %v", x.targets, got, works)
		}
	}
}
