//go:build kube

package election

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/test/etcdtest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
)

func TestMain(m *testing.M) {
	etcdtest.Main()
	goleak.VerifyTestMain(m)
}

// TestServerSharesLeaseWithControllerManager: a replica of ours, with no more rights
// than it needs, and a kube-controller-manager follow one another on one Lease.
func TestServerSharesLeaseWithControllerManager(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{})
	kubeconfig := c.ServiceAccount("kube-system", "tulle-controller", kubetest.Rule{
		APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "list", "watch", "create", "update"},
	})
	client, err := kube.NewClient(kube.Options{Kubeconfig: kubeconfig, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	o := Options{
		Client: client, Namespace: "kube-system", Name: "tulle", Identity: "ours",
		LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
	}
	terms := make(chan Term, 10)
	run := func() (e *Elector, end func()) {
		e, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.Run(ctx, func(ctx context.Context, term Term) bool {
				terms <- term
				<-ctx.Done()
				return true
			})
		}()
		end = func() { cancel(); <-done }
		t.Cleanup(end)
		return e, end
	}
	next := func() (term Term) {
		t.Helper()
		select {
		case term = <-terms:
		case <-time.After(time.Minute):
			t.Fatal("our replica does not lead")
		}
		return term
	}
	// renewed waits until the Lease of a holder was renewed.
	renewed := func(what string, is func(holder string) bool) {
		t.Helper()
		first := ""
		kerneltest.Eventually(t, time.Minute, func() error {
			var l kube.Lease
			err := kube.Get(t.Context(), client, path, kube.LeaseFormat, &l)
			if err == nil && is(l.Spec.HolderIdentity) && first == "" {
				first = l.Spec.RenewTime
			}
			if err != nil || !is(l.Spec.HolderIdentity) || l.Spec.RenewTime == first {
				return fmt.Errorf("not held by %s, or not renewed: %+v, %w", what, l.Spec, err)
			}
			return nil
		})
	}
	first, end := run()
	if term := next(); !term.Clean {
		t.Errorf("%+v", term)
	}
	manager := c.Manager(c.Admin(), "--cluster-cidr=10.5.0.0/16", "--leader-elect=true", "--leader-elect-resource-name=tulle", "--leader-elect-resource-namespace=kube-system",
		"--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=200ms")
	renewed("our replica", func(holder string) bool { return holder == first.identity })
	end()
	renewed("the controller manager", func(holder string) bool { return holder != "" && holder != first.identity })
	second, end := run()
	kerneltest.Eventually(t, time.Minute, func() error {
		if s := second.Status(); !s.Known || s.Leader == "" || s.Leading {
			return fmt.Errorf("our replica reports %+v", s)
		}
		return nil
	})
	manager.End(syscall.SIGKILL)
	if term := next(); term.Clean || term.Number < 2 {
		t.Errorf("%+v", term)
	}
	renewed("our replica", func(holder string) bool { return holder == second.identity })
	end()
}
