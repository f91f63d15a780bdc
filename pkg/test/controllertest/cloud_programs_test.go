//go:build kube

package controllertest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
)

const ccmName = "AWS cloud controller manager"

// clusterFlags are the flags of both programs.
var clusterFlags = []string{
	"--cloud-provider=aws", "--cluster-name=prod", "--cluster-cidr=10.64.0.0/10", "--allocate-node-cidrs=true", "--configure-cloud-routes=true",
	nodeControllers + ",node-route-controller",
}

// nodeControllers turns on the controllers of a cloud that need no route tables.
const nodeControllers = "--controllers=cloud-node-controller,cloud-node-lifecycle-controller"

// allRules are the RBAC rules of tulle-controller with all controllers of a cloud.
func allRules() []kubetest.Rule {
	return slices.Concat(kubetest.ControllerRules, routeRules, cloudRules)
}

// cloudConfig writes the cloud config of an account, which both programs read. Only the
// other program needs the endpoints in it.
func (l *lab) cloudConfig(a *cloudAccount) (path string) {
	l.t.Helper()
	text := fmt.Sprintf("[Global]\nZone = %s\nVPC = %s\nSubnetID = %s\nKubernetesClusterID = prod\n%s", a.homes[0].zone, a.vpc, a.subnet, a.settings)
	for i, service := range []string{"EC2", "Elastic Load Balancing v2"} {
		text += fmt.Sprintf("\n[ServiceOverride \"%d\"]\nService = %s\nRegion = %s\nURL = %s\nSigningRegion = %s\n", i+1, service, awstest.Region, a.url, awstest.Region)
	}
	path = filepath.Join(l.t.TempDir(), "cloud.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return path
}

// ccm runs the AWS cloud controller manager.
func (l *lab) ccm(program string, a *cloudAccount, flags ...string) *kerneltest.Process {
	l.t.Helper()
	p := kerneltest.Launch(l.t, "", a.env, append(append([]string{
		program, "--kubeconfig=" + l.Admin(), "--cloud-config=" + l.cloudConfig(a), "--leader-elect=false", "--secure-port=0", "--webhook-secure-port=0",
	}, clusterFlags...), flags...)...)
	l.t.Cleanup(func() {
		p.End(syscall.SIGKILL)
		if l.t.Failed() {
			l.t.Logf("the AWS cloud controller manager logs\n%.20000s", p.Said())
		}
	})
	return p
}

// ours runs tulle-controller with all controllers of a cloud.
func (l *lab) ours(program, kubeconfig string, a *cloudAccount, flags ...string) *kerneltest.Process {
	l.t.Helper()
	common := clusterFlags
	if slices.Contains(flags, nodeControllers) {
		common = []string{"--cloud-provider=aws", "--cluster-name=prod"}
	}
	p := kerneltest.Launch(l.t, "", append(slices.Clone(a.env), "GORACE=atexit_sleep_ms=0"),
		append(append([]string{program, "--kubeconfig=" + kubeconfig, "--healthz-port=0"}, common...), flags...)...)
	l.t.Cleanup(func() {
		p.End(syscall.SIGKILL)
		if said := p.Said(); strings.Contains(said, "DATA RACE") || strings.Contains(said, "panic:") || l.t.Failed() {
			l.t.Errorf("tulle-controller says\n%.20000s", said)
		}
	})
	return p
}
