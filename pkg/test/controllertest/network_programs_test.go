//go:build kube

package controllertest

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/controller/awscluster"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/certtest"
	"github.com/tulle-net/tulle/pkg/test/sourcetest"
)

const capaName = "Cluster API's AWS provider"

// coreKinds are the kinds of Cluster API's core that its AWS provider watches.
var coreKinds = []struct{ group, kind, plural string }{
	{"cluster.x-k8s.io", "Cluster", "clusters"},
	{"cluster.x-k8s.io", "Machine", "machines"},
	{"cluster.x-k8s.io", "MachineSet", "machinesets"},
	{"cluster.x-k8s.io", "MachineDeployment", "machinedeployments"},
}

// providerLabels are the labels of the CustomResourceDefinitions of Cluster API's AWS provider.
var providerLabels = map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1_v1beta2"}

// realDefinitions adds the CustomResourceDefinitions of Cluster API's AWS provider, and open ones of
// what that watches. Without the provider's source, all are open.
func (l *networkLab) realDefinitions() {
	l.t.Helper()
	dir, err := sourcetest.CAPA.Definitions()
	if err != nil {
		l.t.Fatal(err)
	}
	if dir == "" {
		l.openDefinitions()
		return
	}
	for _, k := range coreKinds {
		l.define(k.group, k.kind, k.plural, nil)
	}
	l.defineAll(dir, "infrastructure.", providerLabels)
}

// defineAll adds the CustomResourceDefinitions of a folder whose names have a prefix.
func (l *networkLab) defineAll(dir, prefix string, labels map[string]string) {
	l.t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, prefix+"*.yaml"))
	if err != nil || len(files) == 0 {
		l.t.Fatalf("%s has no CustomResourceDefinitions %s*: %v", dir, prefix, err)
	}
	var resources []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			l.t.Fatal(err)
		}
		var d map[string]any
		if err := yaml.Unmarshal(text, &d); err != nil {
			l.t.Fatal(err)
		}
		d["metadata"].(map[string]any)["labels"] = labels
		l.Do(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", d, nil)
		spec := d["spec"].(map[string]any)
		for _, v := range spec["versions"].([]any) {
			if v := v.(map[string]any); v["served"] == true {
				resources = append(resources, fmt.Sprintf("/apis/%s/%s/%s", spec["group"], v["name"], spec["names"].(map[string]any)["plural"]))
			}
		}
	}
	kerneltest.Eventually(l.t, patience, func() error {
		for _, r := range resources {
			if err := l.Try(http.MethodGet, r, nil, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// builds runs tulle-controller for networks, as it is released.
func (l *networkLab) builds(program string, a *cloudAccount, flags ...string) *kerneltest.Process {
	l.t.Helper()
	p := kerneltest.Launch(l.t, "", a.env, append([]string{program, "--kubeconfig=" + l.account, "--controllers=awscluster", "--healthz-port=0"}, flags...)...)
	l.ends(p, tulleName)
	l.waitsFor(p, "Starting tulle-controller")
	return p
}

// capa runs Cluster API's AWS provider with the controllers of networks and machines.
func (l *networkLab) capa(program string, a *cloudAccount, flags ...string) *kerneltest.Process {
	l.t.Helper()
	// A webhook of the provider names this identity in each AWSCluster, and the provider itself
	// assumes the name where no webhook runs.
	l.Do(http.MethodPost, "/apis/"+awscluster.Group+"/v1beta2/awsclustercontrolleridentities", map[string]any{
		"apiVersion": awscluster.Group + "/v1beta2", "kind": "AWSClusterControllerIdentity", "metadata": map[string]any{"name": "default"},
		"spec": map[string]any{"allowedNamespaces": map[string]any{}},
	}, nil)
	services := make([]string, 0, 4)
	for _, s := range []string{"ec2", "elasticloadbalancing", "tagging", "sts"} {
		services = append(services, s+"="+a.url)
	}
	p := kerneltest.Launch(l.t, "", append([]string{"KUBECONFIG=" + l.Admin()}, a.env...), append([]string{
		program, "--service-endpoints=" + awstest.Region + ":" + strings.Join(services, ","), "--feature-gates=EKS=false,MachinePool=false",
		"--webhook-cert-dir=" + l.webhookFiles(), "--webhook-port=" + unusedPort(l.t), "--health-addr=127.0.0.1:0", "--diagnostics-address=127.0.0.1:0", "--insecure-diagnostics",
	}, flags...)...)
	l.ends(p, capaName)
	kerneltest.Eventually(l.t, patience, func() error {
		for line := range strings.Lines(p.Said()) {
			if strings.Contains(line, "Starting workers") && strings.Contains(line, `controller="awscluster"`) {
				return nil
			}
		}
		if p.Over() {
			l.t.Fatalf("%s ended:\n%.8000s", capaName, p.Said())
		}
		return fmt.Errorf("%s does not work yet:\n%.8000s", capaName, p.Said())
	})
	return p
}

// ends ends a program with the test, and shows what it said if the test fails.
func (l *networkLab) ends(p *kerneltest.Process, name string) {
	l.t.Cleanup(func() {
		p.End(syscall.SIGKILL)
		if l.t.Failed() {
			l.t.Logf("%s says\n%.20000s", name, p.Said())
		}
	})
}

// webhookFiles returns a folder with a certificate for a server of webhooks, which no API server
// calls here.
func (l *networkLab) webhookFiles() (dir string) {
	l.t.Helper()
	dir = l.t.TempDir()
	f := certtest.NewFiles(l.t)
	certtest.New(l.t).Write(f, netip.MustParseAddr("127.0.0.1"), 24*time.Hour)
	for from, to := range map[string]string{f.Cert: "tls.crt", f.Key: "tls.key"} {
		if err := os.Rename(from, filepath.Join(dir, to)); err != nil {
			l.t.Fatal(err)
		}
	}
	return dir
}

// unusedPort returns a port at which no server listens.
func unusedPort(t testing.TB) string {
	t.Helper()
	s, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return fmt.Sprint(s.Addr().(*net.TCPAddr).Port)
}

// networkAccount returns an account of awstest without instances.
func networkAccount(l *networkLab, latency time.Duration) *cloudAccount {
	l.aws.Set(func(s *awstest.Settings) { s.Latency = map[string]time.Duration{"": latency} })
	return &cloudAccount{kind: fakeKind, env: l.aws.Env(), url: l.aws.URL, counts: l.aws.Counts, fake: l.aws}
}

// motoNetworkAccount returns an account of a moto_server without instances.
func motoNetworkAccount(t testing.TB, latency time.Duration) *cloudAccount {
	t.Helper()
	c := &counter{to: startMoto(t), calls: make(map[string]int)}
	warmMoto(t, c.to)
	proxy := httptest.NewServer(&ruleTexts{next: c, latency: latency, texts: make(map[string]string)})
	t.Cleanup(proxy.Close)
	a := &cloudAccount{kind: motoKind, url: proxy.URL, counts: c.counts}
	for _, v := range awstest.Environment(proxy.URL) {
		a.env = append(a.env, v[0]+"="+v[1])
	}
	return a
}

// warmMoto makes a moto_server load what networks need. That takes seconds, and would count for
// the program that is measured.
func warmMoto(t testing.TB, moto *url.URL) {
	t.Helper()
	for _, first := range [][3]string{
		{"ec2", "DescribeVpcs", "2016-11-15"}, {"elasticloadbalancing", "DescribeLoadBalancers", "2015-12-01"}, {"elasticloadbalancing", "DescribeLoadBalancers", "2012-06-01"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, moto.String(), strings.NewReader(url.Values{"Action": {first[1]}, "Version": {first[2]}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/"+awstest.Region+"/"+first[0]+"/aws4_request, SignedHeaders=host, Signature=test")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("moto answers %s with %s", first[1], answer.Status)
		}
	}
}

// ruleTexts is a proxy before moto that delays calls, and makes up for two of its faults. It adds
// to the answers of DescribeSecurityGroupRules the descriptions of rules whose other end is a
// security group: AWS keeps these; moto does not. And it adds ports to rules of protocols that
// have none: moto crashes without.
type ruleTexts struct {
	next    http.Handler
	latency time.Duration

	mu    sync.Mutex
	texts map[string]string
}

var (
	ruleItem  = regexp.MustCompile(`<item><securityGroupRuleId>.*?</item>`)
	ruleField = regexp.MustCompile(`<(groupId|isEgress|ipProtocol|fromPort|toPort)>([^<]*)<`)
)

// ServeHTTP implements http.Handler.
func (p *ruleTexts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	select {
	case <-time.After(p.latency):
	case <-r.Context().Done():
		return
	}
	form, _ := url.ParseQuery(string(body)) // a body that is not a form has no action
	action := form.Get("Action")
	if addPorts(form) {
		body = []byte(form.Encode())
		r.ContentLength = int64(len(body))
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	p.learn(action, form)
	if action != "DescribeSecurityGroupRules" {
		p.next.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	p.next.ServeHTTP(answer, r)
	text := ruleItem.ReplaceAllFunc(answer.Body.Bytes(), p.complete)
	w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(text)
}

// addPorts adds ports to the rules of a form that have a protocol but no ports, and reports whether
// there are any.
func addPorts(form url.Values) (any bool) {
	for i := 1; form.Has(fmt.Sprintf("IpPermissions.%d.IpProtocol", i)); i++ {
		of := fmt.Sprintf("IpPermissions.%d.", i)
		if form.Get(of+"IpProtocol") == "-1" || form.Has(of+"FromPort") {
			continue
		}
		form.Set(of+"FromPort", "-1")
		form.Set(of+"ToPort", "-1")
		any = true
	}
	return any
}

// learn records the descriptions that a call sets.
func (p *ruleTexts) learn(action string, form url.Values) {
	egress := strings.HasSuffix(action, "Egress")
	if !strings.HasPrefix(action, "AuthorizeSecurityGroup") && !strings.HasPrefix(action, "UpdateSecurityGroupRuleDescriptions") {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := 1; form.Has(fmt.Sprintf("IpPermissions.%d.IpProtocol", i)); i++ {
		of := fmt.Sprintf("IpPermissions.%d.", i)
		for j := 1; form.Has(fmt.Sprintf("%sGroups.%d.GroupId", of, j)); j++ {
			pair := fmt.Sprintf("%sGroups.%d.", of, j)
			p.texts[ruleKey(form.Get("GroupId"), strconv.FormatBool(egress), form.Get(of+"IpProtocol"), form.Get(of+"FromPort"), form.Get(of+"ToPort"), form.Get(pair+"GroupId"))] = form.Get(pair + "Description")
		}
	}
}

// complete adds its description to a rule.
func (p *ruleTexts) complete(item []byte) []byte {
	if bytes.Contains(item, []byte("<description>")) || !bytes.Contains(item, []byte("<referencedGroupInfo>")) {
		return item
	}
	fields := make(map[string]string)
	for _, m := range ruleField.FindAllSubmatch(item, -1) {
		name := string(m[1])
		if _, has := fields[name]; has && name == "groupId" {
			name = "other" // it comes after the rule's own
		}
		fields[name] = string(m[2])
	}
	p.mu.Lock()
	text := p.texts[ruleKey(fields["groupId"], fields["isEgress"], fields["ipProtocol"], fields["fromPort"], fields["toPort"], fields["other"])]
	p.mu.Unlock()
	if text == "" {
		return item
	}
	return bytes.Replace(item, []byte("<referencedGroupInfo>"), []byte("<description>"+html.EscapeString(text)+"</description><referencedGroupInfo>"), 1)
}

func ruleKey(group, egress, protocol, from, to, other string) string {
	if protocol == "-1" {
		from, to = "", "" // moto has no ports of a rule for all protocols
	}
	return strings.Join([]string{group, egress, protocol, from, to, other}, " ")
}
