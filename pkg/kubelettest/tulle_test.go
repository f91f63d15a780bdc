//go:build kubelet

package kubelettest

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
)

// The DaemonSet's name, and what finds its pods.
const (
	tulleNamespace = "kube-tulle"
	tulleName      = "tulle"
	tulleSelector  = "-n kube-tulle -l app=tulle"
	tulleContainer = "tulled"
)

const interim = `apiVersion: v1
kind: Namespace
metadata: {name: kube-tulle, labels: {pod-security.kubernetes.io/enforce: privileged}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: tulle, namespace: kube-tulle}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tulle}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [nodes/status], verbs: [patch]}
- {apiGroups: [""], resources: [events], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tulle}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tulle}
subjects: [{kind: ServiceAccount, name: tulle, namespace: kube-tulle}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: tulle, namespace: kube-tulle}
data:
  net-conf.json: |
    {"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan"}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: tulle, namespace: kube-tulle}
spec:
  selector: {matchLabels: {app: tulle}}
  template:
    metadata: {labels: {app: tulle}}
    spec:
      hostNetwork: true
      priorityClassName: system-node-critical
      serviceAccountName: tulle
      tolerations: [{operator: Exists}]
      initContainers:
      - name: install-cni
        image: IMAGE
        args: [install-cni]
        securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        volumeMounts:
        - {name: plugins, mountPath: /opt/cni/bin}
      containers:
      - name: tulled
        image: IMAGE
        args: [--kube-subnet-mgr, --ip-masq, --cni-conf-file=/etc/cni/net.d/10-flannel.conflist, --healthz-port=10471]
        env:
        - name: NODE_NAME
          valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
        securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL], add: [NET_ADMIN]}}
        readinessProbe: {httpGet: {host: 127.0.0.1, port: 10471, path: /readyz}}
        livenessProbe: {httpGet: {host: 127.0.0.1, port: 10471, path: /healthz}}
        volumeMounts:
        - {name: flannel, mountPath: /run/flannel}
        - {name: run, mountPath: /run/tulle}
        - {name: state, mountPath: /var/lib/tulle}
        - {name: cni, mountPath: /etc/cni/net.d}
        - {name: machine-id, mountPath: /etc/machine-id, readOnly: true}
        - {name: sysctl, mountPath: /host/proc/sys/net}
        - {name: config, mountPath: /etc/kube-flannel, readOnly: true}
      volumes:
      - {name: plugins, hostPath: {path: /opt/cni/bin, type: DirectoryOrCreate}}
      - {name: flannel, hostPath: {path: /run/flannel, type: DirectoryOrCreate}}
      - {name: run, hostPath: {path: /run/tulle, type: DirectoryOrCreate}}
      - {name: state, hostPath: {path: /var/lib/tulle, type: DirectoryOrCreate}}
      - {name: cni, hostPath: {path: /etc/cni/net.d, type: DirectoryOrCreate}}
      - {name: machine-id, hostPath: {path: /etc/machine-id, type: File}}
      - {name: sysctl, hostPath: {path: /proc/sys/net}}
      - {name: config, configMap: {name: tulle}}
`

// installTulle has all nodes know tulle's image, and applies its manifest.
func (k *kubernetes) installTulle() {
	k.t.Helper()
	const name = "tulle.test/tulle:v0.0.1"
	archive := tulleImage(k.t, name)
	for _, n := range k.nodes {
		n.load(archive)
	}
	k.apply(strings.ReplaceAll(interim, "IMAGE", name))
}

// awaitTulle waits until the DaemonSet is rolled out.
func (k *kubernetes) awaitTulle() {
	k.t.Helper()
	run(k.t, k.kubectlCommand("rollout", "status", "-n", tulleNamespace, "daemonset/"+tulleName, "--timeout", patience.String()))
}

// tulled is the pod of the DaemonSet on a node.
func (k *kubernetes) tulled(n *node) (p podObject) {
	k.t.Helper()
	k.eventually(func() error {
		for _, p = range k.pods(tulleSelector) {
			if p.Spec.NodeName == n.Name && p.Metadata.DeletionTimestamp == "" && containerID(p, tulleContainer) != "" {
				return nil
			}
		}
		return fmt.Errorf("%s has no tulled", n.Name)
	})
	return p
}

// inTulled is a command to be run in the daemon's container on a node.
func (k *kubernetes) inTulled(n *node, args ...string) *exec.Cmd {
	k.t.Helper()
	id := fmt.Sprintf("test-%d", rand.Uint64())
	return n.command(append([]string{"ctr", "-n", "k8s.io", "tasks", "exec", "--exec-id", id, containerID(k.tulled(n), tulleContainer)}, args...)...)
}

func (k *kubernetes) status(t testing.TB, n *node) string {
	t.Helper()
	return run(t, k.inTulled(n, "/tulled", "status"))
}
