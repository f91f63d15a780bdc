//go:build kube

package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
)

// TestKubePod starts a daemon with the environment of a pod from flannel's manifest.
// The pod has a mounted token, CA certificate and namespace. Two variables name the API
// server, and two name the pod.
func TestKubePod(t *testing.T) {
	t.Parallel()
	k := newKubeWorld(t, 1, dualNetwork, false)
	one := k.Hosts[0]
	const account = "tulle-host1"
	k.register(one)
	k.api.ServiceAccount("kube-system", account, append([]kubetest.Rule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}, kubeRules...)...)
	k.api.Do(http.MethodPost, "/api/v1/namespaces/kube-system/pods", map[string]any{
		"metadata": map[string]any{"name": "tulle-x"},
		"spec": map[string]any{
			"nodeName": one.Name, "serviceAccountName": account, "automountServiceAccountToken": false,
			"containers": []any{map[string]any{"name": "tulle", "image": "tulle"}},
		},
	}, nil)
	secrets := filepath.Join(one.Dir, "run/secrets/kubernetes.io/serviceaccount")
	if err := os.MkdirAll(secrets, 0o755); err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(k.api.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	mount := func(name, text string) {
		t.Helper()
		path := filepath.Join(secrets, name)
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	token := k.api.Token("kube-system", account)
	mount("ca.crt", string(ca))
	mount("token", token.Text)
	run := func() {
		t.Helper()
		k.daemons[one] = one.Start(clustertest.Command{Argv: tulled.Argv, Env: append([]string{
			"KUBERNETES_SERVICE_HOST=" + clustertest.EtcdAddrs(1)[0].String(), "KUBERNETES_SERVICE_PORT=6443",
			"POD_NAMESPACE=kube-system", "POD_NAME=tulle-x",
		}, impatient...)}, "--kube-subnet-mgr", "--net-config-path="+k.config,
			"--subnet-file="+one.SubnetFile, "--state-dir="+one.StateDir, "--cni-conf-file="+one.CNIConfFile)
	}
	run()
	k.available(one, true)
	k.says(one, "host1", k.api.URL, "!NOT READY")

	// The kubelet mounts another token, and the server revokes the previous one.
	mount("token", k.api.Token("kube-system", account).Text)
	token.Revoke()
	k.api.Kill() // a restart drops its cache of valid tokens
	k.api.Restart()
	k.stranger(known, 250)
	k.follows()
	k.annotate(one.Name, map[string]string{"tulle": "{}"})
	k.storeWorks(one)
}
