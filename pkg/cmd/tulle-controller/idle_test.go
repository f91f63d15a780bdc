package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/cloudnode"
	"github.com/tulle-net/tulle/pkg/controller/labtest"
	"github.com/tulle-net/tulle/pkg/controller/lifecycle"
	"github.com/tulle-net/tulle/pkg/controller/route"
)

// batched is a cloud whose lookups go through a cloud.Batch, as those of aws.Client do.
type batched struct {
	*cloudtest.Routes
	batch *cloud.Batch
}

func (b batched) Instances(ctx context.Context, ids []string) (map[string]cloud.Instance, error) {
	return b.batch.Instances(ctx, ids)
}

func (b batched) Named(ctx context.Context, names []string) (map[string]cloud.Instance, error) {
	return b.Fleet.Named(ctx, names)
}

// All controllers of a cloud together ask it at most once a minute while nothing changes,
// counted over a day.
func TestADayWithoutChangesCostsACallAMinute(t *testing.T) {
	labtest.Run(t, func(l *labtest.Lab) {
		fleet := cloudtest.NewFleet()
		l.API.Serves["api/v1/configmaps"] = "ConfigMap"
		at := batched{cloudtest.NewRoutes(fleet, "rtb-a"), cloud.NewBatch(fleet.Instances)}
		for i := range 20 {
			name := fmt.Sprintf("worker-%d", i)
			n := &corev1.Node{}
			n.Name, n.UID = name, types.UID("uid-"+name)
			n.Spec.ProviderID = fleet.Launch(name)
			n.Spec.PodCIDR = fmt.Sprintf("10.4.%d.0/24", i)
			n.Spec.PodCIDRs = []string{n.Spec.PodCIDR}
			n.Spec.Taints = []corev1.Taint{{Key: cloudnode.Taint, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			l.AddNode(n)
		}
		l.Start(controller.Options{}, func(e *controller.Engine) {
			cloudnode.New(e, cloudnode.Options{Client: l.Client, Cloud: at, Refresh: time.Hour, Event: e.Event})
			lifecycle.New(e, lifecycle.Options{Client: l.Client, Cloud: at, Rules: lifecycle.Rules{Limit: 5, Remembers: time.Hour}, Period: time.Minute, Event: e.Event})
			route.New(e, route.Options{
				Cloud: at, Nodes: route.Cluster{Client: l.Client}, Ledger: route.NewConfigMaps(l.Client, "kube-system", ledgerName),
				Period: time.Minute, Grace: 5 * time.Minute, Event: e.Event,
			})
		})
		l.Begin()
		l.Pass(10 * time.Minute)
		if n := len(at.Changes()); n != 20 {
			t.Fatalf("%d routes", n)
		}
		reads, lookups, writes := at.Reads(), len(fleet.Calls()), l.API.Asked("PATCH ")
		const minutes = 24 * 60
		l.Pass(minutes * time.Minute)
		reads, lookups, writes = at.Reads()-reads, len(fleet.Calls())-lookups, l.API.Asked("PATCH ")-writes
		// One reading of the quota of AWS comes on top.
		if reads+lookups > minutes || lookups != 48 || reads < minutes-2*48 || writes > 0 {
			t.Errorf("%d readings, %d lookups and %d writes in a day", reads, lookups, writes)
		}
	})
}
