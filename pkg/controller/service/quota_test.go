package service

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
)

// withoutQuota is a cloud whose quotas cannot be read at times.
type withoutQuota struct {
	*cloudtest.Balancers
	fails *atomic.Bool
}

func (w withoutQuota) BalancerQuota(ctx context.Context) (cloud.BalancerQuota, error) {
	if w.fails.Load() {
		return cloud.BalancerQuota{}, &cloud.Error{Kind: cloud.Throttled, Action: "DescribeAccountLimits", Text: "slow down"}
	}
	return w.Balancers.BalancerQuota(ctx)
}

// A quota that was read limits Services while it cannot be read again.
func TestFailedReadingOfQuotaLiftsNoLimit(t *testing.T) {
	inLab(t, func(l *lab) {
		c := withoutQuota{l.cloud, new(atomic.Bool)}
		l.options.Cloud = c
		l.crash() // starts with it
		l.add("web", func(d map[string]any) {
			var ports []any
			for i := range int64(60) {
				ports = append(ports, map[string]any{"name": "p", "protocol": "TCP", "port": 1000 + i, "nodePort": 31000 + i})
			}
			d["spec"].(map[string]any)["ports"] = ports
		})
		l.Pass(10 * time.Second)
		c.fails.Store(true)
		l.Pass(2 * subnetsInterval)
		if got := l.verbs(0); len(got) > 0 {
			t.Errorf("%v", got)
		}
		c.fails.Store(false)
		l.add("small")
		l.Pass(time.Minute)
		l.wantBalanced("small", 1, 2)
	})
}
