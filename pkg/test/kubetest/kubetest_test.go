//go:build kube

package kubetest_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/etcdtest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
)

func TestMain(m *testing.M) {
	etcdtest.Main()
	os.Exit(m.Run())
}

// TestControlPlaneRunsInANamespace runs a control plane on a host of a cluster. It
// checks that another host reaches the control plane, and that it does not while the
// control plane fails.
func TestControlPlaneRunsInANamespace(t *testing.T) {
	hosts := clustertest.New(t, clustertest.Options{Hosts: 1})
	at := clustertest.EtcdAddrs(1)[0]
	c := kubetest.Start(t, kubetest.Options{Namespace: hosts.EtcdHost().NS.Name, Address: at, ClusterCIDRs: []string{"10.5.0.0/16", "fd00:5::/56"}})
	rules := kubetest.Rule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list"}}
	one := hosts.Hosts[0]

	client := func(kubeconfig string) func() error {
		t.Helper()
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		config.Dial = kerneltest.Dialer(one.NS.Name)
		h, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		return func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/api/v1/nodes", nil)
			if err != nil {
				t.Fatal(err)
			}
			a, err := h.Do(r)
			if err != nil {
				return err
			}
			a.Body.Close()
			if a.StatusCode != http.StatusOK {
				return fmt.Errorf("%s", a.Status)
			}
			return nil
		}
	}
	list := client(c.ServiceAccount("kube-system", "one", rules))
	works := func() { t.Helper(); kerneltest.Eventually(t, time.Minute, list) }
	fails := func() {
		t.Helper()
		kerneltest.Eventually(t, time.Minute, func() error {
			if list() == nil {
				return fmt.Errorf("it answers")
			}
			return nil
		})
	}
	works()
	one.Cut(at)
	fails()
	one.Heal(at)
	works()
	c.Freeze()
	fails()
	c.Thaw()
	works()
	c.Allow("one")
	fails()
	c.Allow("one", rules)
	works()
	c.Kill()
	fails()
	c.Restart()
	works()

	c.Do(http.MethodPost, "/api/v1/nodes", map[string]any{"metadata": map[string]any{"name": "host1"}}, nil)
	kerneltest.Eventually(t, time.Minute, func() error {
		var n struct{ Spec struct{ PodCIDRs []string } }
		if c.Do(http.MethodGet, "/api/v1/nodes/host1", nil, &n); len(n.Spec.PodCIDRs) != 2 {
			return fmt.Errorf("podCIDRs %v", n.Spec.PodCIDRs)
		}
		return nil
	})

	token := c.Token("kube-system", "one")
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token.Text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := c.Proxy()
	list = client(c.KubeconfigAt(p.URL, file))
	works()
	p.Answer(func(r *http.Request) http.HandlerFunc {
		if r.Method != http.MethodGet {
			return nil
		}
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }
	})
	fails()
	p.Answer(nil)
	works()
	p.Delay(time.Minute)
	fails()
	p.Delay(0)
	p.Reset()
	works()
	if n := p.Asked(http.MethodGet); n < 4 {
		t.Errorf("%d requests were seen", n)
	}
	token.Revoke()
	fails()
}
