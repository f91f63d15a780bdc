//go:build kube && ginkgo

package controllertest

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// The version of node-ipam-controller whose tests run against tulle-controller.
const (
	ginkgoSource = "https://github.com/kubernetes-sigs/node-ipam-controller"
	ginkgoCommit = "aa9996c92490a64fa93097ed5a15a623d40c6581"
)

// ginkgoStart is the code with which its suite starts its own controller, and elsewhere
// is what replaces it.
const (
	ginkgoStart = "NewMultiCIDRRangeAllocator("
	elsewhere   = `package ipam

import "context"

// elsewhere is the controller under test, which runs already.
type elsewhere struct{ CIDRAllocator }

func (elsewhere) Run(context.Context) {}

func runsElsewhere(...any) (CIDRAllocator, error) { return elsewhere{}, nil }
`
)

// The test runs node-ipam-controller's own suite against tulle-controller. The suite
// only uses the API server. The test changes one thing in it: the suite does not start
// its own controller. GINKGO_SOURCE may name another git repository that has the
// commit.
func TestGinkgoSuiteOfNodeIPAMController(t *testing.T) {
	dir := t.TempDir()
	from := os.Getenv("GINKGO_SOURCE")
	if from == "" {
		from = ginkgoSource
	}
	run := func(env []string, command ...string) {
		t.Helper()
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
		}
	}
	run(nil, "git", "init", "-q")
	run(nil, "git", "fetch", "-q", "--depth", "1", from, ginkgoCommit)
	run(nil, "git", "checkout", "-q", "FETCH_HEAD")
	suite := filepath.Join(dir, "pkg", "controller", "ipam")
	test := filepath.Join(suite, "ipam_test.go")
	text, err := os.ReadFile(test)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte(ginkgoStart)); n != 1 {
		t.Fatalf("%s starts its controller in %d places", test, n)
	}
	text = bytes.Replace(text, []byte(ginkgoStart), []byte("runsElsewhere("), 1)
	for path, text := range map[string][]byte{test: text, filepath.Join(suite, "elsewhere_test.go"): []byte(elsewhere)} {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	settings := []string{"GOFLAGS=-buildvcs=false", "GOWORK=off"}
	run(settings, "go", "test", "-c", "-o", "suite", "./pkg/controller/ipam")

	// The suite's ranges overlap the Service ranges of other tests.
	l := newLab(t, "--service-cluster-ip-range=10.94.0.0/24")
	definition, err := os.ReadFile(filepath.Join(dir, "charts/node-ipam-controller/gen/crds/networking.x-k8s.io_clustercidrs.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := yaml.Unmarshal(definition, &object); err != nil {
		t.Fatal(err)
	}
	l.Do(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", object, nil)
	kerneltest.Eventually(t, patience, func() error { return l.Try(http.MethodGet, poolsPath, nil, nil) })
	l.tulle(
		"--cidr-allocator-type=MultiCIDRRangeAllocator", "--cluster-cidr=10.96.0.0/12,fd00:10:96::/112", "--node-cidr-mask-size-ipv6=120",
		"--service-cluster-ip-range=10.94.0.0/24", "--node-cidr-rest=0", "--leader-elect=false",
	)
	cmd := exec.Command(filepath.Join(dir, "suite"), "-test.run=^TestAPIs$", "-test.v")
	cmd.Dir, cmd.Env = suite, append(os.Environ(), "USE_EXISTING_CLUSTER=true", "KUBECONFIG="+l.Admin())
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("SUCCESS!")) {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "Ran ") && strings.Contains(line, "Specs") || strings.Contains(line, "SUCCESS!") {
			t.Log(strings.TrimSpace(line))
		}
	}
}
