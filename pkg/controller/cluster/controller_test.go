package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/labtest"
	"github.com/tulle-net/tulle/pkg/kube/capi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	clusterPath = "apis/cluster.x-k8s.io/v1beta2/namespaces/default/clusters/prod"
	awsPath     = "apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/default/awsclusters/prod"
	secretsPath = "api/v1/namespaces/default/secrets/"
)

// lab is an API server, and a controller whose clusters answer if up is set.
type lab struct {
	*labtest.Lab
	up      atomic.Bool
	preview bool
}

func inLab(t *testing.T, version int, test func(l *lab)) {
	t.Helper()
	labtest.Run(t, func(in *labtest.Lab) {
		l := &lab{Lab: in}
		l.API.Serves[infraPath] = infraKind
		l.API.Serves[[]string{capi.ClustersBeta1, capi.Clusters}[version]] = "Cluster"
		l.API.Serves["api/v1/secrets"] = "Secret"
		l.start()
		test(l)
	})
}

func (l *lab) start() {
	var mode controller.Mode
	if l.preview {
		mode = controller.ObserveMode
	}
	l.Start(controller.Options{Mode: mode}, func(e *controller.Engine) {
		New(e, Options{Client: l.Client, Event: e.Event, Preview: l.preview, probe: func(context.Context, access) error {
			if !l.up.Load() {
				return errors.New("the API server does not answer")
			}
			return nil
		}})
	})
}

func (l *lab) put(path, text string) {
	l.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		l.Fatal(err)
	}
	l.API.Do(func() {
		if was := l.API.Stored(path); was != nil {
			for key, value := range was["metadata"].(map[string]any) {
				if m := o["metadata"].(map[string]any); m[key] == nil && key != "resourceVersion" {
					m[key] = value
				}
			}
		}
		l.API.ChangeObject("MODIFIED", path, o)
	})
}

// ca puts the Secret with the CA.
func (l *lab) ca() {
	l.Helper()
	data := make(map[string]string)
	for key, value := range newCA(l, true, time.Now().Add(20*certificateTime)) {
		data[key] = base64.StdEncoding.EncodeToString(value)
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{}, "data": data})
	if err != nil {
		l.Fatal(err)
	}
	l.put(secretsPath+"prod-ca", string(text))
}

// text returns an object as text, or "".
func (l *lab) text(path string) string {
	l.Helper()
	o := l.API.Object(path)
	if o == nil {
		return ""
	}
	text, err := json.Marshal(o)
	if err != nil {
		l.Fatal(err)
	}
	return string(text)
}

func (l *lab) has(path string, parts ...string) {
	l.Helper()
	text := l.text(path)
	for _, p := range parts {
		if !strings.Contains(text, p) {
			l.Errorf("%s lacks %q: %s", path, p, text)
		}
	}
}

const reference = `{"metadata": {}, "spec": {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSCluster", "name": "prod"}}}`

// TestClusterIsInitialized follows a Cluster of each version from its creation to the answer of
// its API server.
func TestClusterIsInitialized(t *testing.T) {
	for version, v := range []struct{ path, provisioned, up, domains string }{
		{strings.Replace(clusterPath, "v1beta2", "v1beta1", 1), `"infrastructureReady":true`, `"type":"ControlPlaneInitialized"`, `"failureDomains":{"a":{"controlPlane":true}}`},
		{clusterPath, `"infrastructureProvisioned":true`, `"controlPlaneInitialized":true`, `"failureDomains":[{"controlPlane":true,"name":"a"}]`},
	} {
		inLab(t, version, func(l *lab) {
			l.put(v.path, reference)
			l.put(awsPath, `{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"}]}}`)
			l.Begin()
			l.Pass(time.Minute)
			l.has(awsPath, `"kind":"Cluster"`, `"kind":"ConfigMap"`, `"cluster.x-k8s.io/cluster-name":"prod"`)
			l.has(v.path, `"phase":"Provisioning"`, `"InfrastructureReady"`)
			aws := l.API.Object(awsPath)
			aws["spec"] = map[string]any{"controlPlaneEndpoint": map[string]any{"host": "prod.example.com", "port": 6443}}
			aws["status"] = map[string]any{"ready": true, "failureDomains": map[string]any{"a": map[string]any{"controlPlane": true}}, "conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Ready"}}}
			l.API.Do(func() { l.API.ChangeObject("MODIFIED", awsPath, aws) })
			l.Pass(time.Minute)
			l.has(v.path, v.provisioned, `"phase":"Provisioned"`, `"host":"prod.example.com"`, `"port":6443`, v.domains, "prod-ca with the CA does not exist")
			l.ca()
			l.Pass(time.Minute)
			l.has(secretsPath+"prod-kubeconfig", `"cluster.x-k8s.io/cluster-name":"prod"`, `"type":"cluster.x-k8s.io/secret"`, `"kind":"Cluster"`)
			l.has(v.path, "the API server does not answer")
			l.up.Store(true)
			l.Pass(time.Minute)
			l.has(v.path, v.up, `"reason":"Initialized"`)

			// Idle: no write, and an outage changes nothing of what was reached.
			before, kubeconfig := l.text(v.path), l.text(secretsPath+"prod-kubeconfig")
			l.up.Store(false)
			l.Pass(time.Hour)
			if now := l.text(v.path); now != before {
				t.Errorf("idle: %s\nafter %s", now, before)
			}
			if l.text(secretsPath+"prod-kubeconfig") != kubeconfig {
				t.Error("idle: another kubeconfig")
			}
			l.ca() // another one
			l.Pass(15 * time.Minute)
			if l.text(secretsPath+"prod-kubeconfig") == kubeconfig {
				t.Error("the CA has changed, and the kubeconfig has not")
			}
			if asked := fmt.Sprint(l.API.Requests()); strings.Contains(asked, "BEGIN") || strings.Contains(asked, "key") {
				t.Error("a request names a key")
			}
		})
	}
}

// TestWhatIsNotOursStays: a paused Cluster, one with other infrastructure, a person's
// kubeconfig, and infrastructure of another Cluster.
func TestWhatIsNotOursStays(t *testing.T) {
	inLab(t, beta2, func(l *lab) {
		other := strings.Replace(clusterPath, "/prod", "/other", 1)
		paused := strings.Replace(clusterPath, "/prod", "/paused", 1)
		l.put(other, strings.Replace(reference, `"kind": "AWSCluster"`, `"kind": "GCPCluster"`, 1))
		l.put(paused, strings.Replace(reference, `"spec": {`, `"spec": {"paused": true, `, 1))
		l.put(clusterPath, strings.Replace(reference, `"spec": {`, `"spec": {"controlPlaneEndpoint": {"host": "mine", "port": 443}, `, 1))
		l.put(awsPath, `{"metadata": {"ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "first", "uid": "first"}]},
			"spec": {"controlPlaneEndpoint": {"host": "theirs", "port": 6443}}, "status": {"ready": true}}`)
		l.ca()
		l.put(secretsPath+"prod-kubeconfig", `{"metadata": {}, "data": {"value": "eA=="}}`)
		before := []string{l.text(other), l.text(paused), l.text(awsPath), l.text(secretsPath + "prod-kubeconfig")}
		l.Begin()
		l.Pass(10 * time.Minute)
		for i, path := range []string{other, paused, awsPath, secretsPath + "prod-kubeconfig"} {
			if now := l.text(path); now != before[i] {
				t.Errorf("%s\nwas %s", now, before[i])
			}
		}
		l.has(clusterPath, `"host":"mine"`, "is another program's, and unusable", "delete it")
	})
}

// TestPreviewWritesNothing: a preview has the first write, and makes none.
func TestPreviewWritesNothing(t *testing.T) {
	inLab(t, beta2, func(l *lab) {
		l.Kill()
		l.preview = true
		l.start()
		l.Engine.Follow()
		l.put(clusterPath, reference)
		l.put(awsPath, `{"metadata": {}}`)
		l.Pass(5 * time.Second)
		writes, err := l.Engine.PlanAll(l.Context())
		if err != nil || len(writes) != 1 || writes[0].Summary != "make Cluster prod its owner" {
			t.Errorf("%v: %+v", err, writes)
		}
		if strings.Contains(l.text(awsPath), "ownerReferences") {
			t.Error("it was written")
		}
	})
}

// TestProbeVerifiesTheServer: only a server with a certificate of the CA counts, and only if it
// says that it is ready.
func TestProbeVerifiesTheServer(t *testing.T) {
	ready := atomic.Bool{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || len(r.TLS.PeerCertificates) == 0 || !ready.Load() {
			http.Error(w, "no", http.StatusInternalServerError)
		}
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	defer s.Close()
	ca, err := readAuthority(newCA(t, true, time.Now().Add(certificateTime)), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	text, err := newKubeconfig("prod", capi.Endpoint{Host: "127.0.0.1", Port: 1}, ca, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	a, err := readKubeconfig(text)
	if err != nil {
		t.Fatal(err)
	}
	a.server = s.URL
	if err := probe(t.Context(), a); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("with another CA: %v", err)
	}
	a.bundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if _, err := x509.ParseCertificate(s.Certificate().Raw); err != nil {
		t.Fatal(err)
	}
	if err := probe(t.Context(), a); err == nil || !strings.Contains(err.Error(), "500") {
		t.Errorf("not ready: %v", err)
	}
	ready.Store(true)
	if err := probe(t.Context(), a); err != nil {
		t.Error(err)
	}
	s.Close()
	if err := probe(t.Context(), a); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("closed: %v", err)
	}
}
