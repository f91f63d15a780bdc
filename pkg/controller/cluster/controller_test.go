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

// TestInfrastructureOfAnotherClusterDoesNotCount: nothing of it is handed on to a
// Cluster that refers to it. It counts when it has no owner any more.
func TestInfrastructureOfAnotherClusterDoesNotCount(t *testing.T) {
	const theirs = `{"metadata": {%s}, "spec": {"controlPlaneEndpoint": {"host": "theirs", "port": 6443}},
		"status": {"initialization": {"provisioned": true}, "failureDomains": [{"name": "a"}], "conditions": [{"type": "Ready", "status": "True", "reason": "Ready"}]}}`
	owner := func(name string) string {
		return `"ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "` + name + `", "uid": "first"}]`
	}
	for metadata, text := range map[string]string{
		owner("first"): "belongs to Cluster first; create another one",
		owner("prod") + `, "finalizers": ["x"], "deletionTimestamp": "2026-01-02T03:04:05Z"`: "is being deleted",
	} {
		inLab(t, beta2, func(l *lab) {
			l.put(clusterPath, reference)
			l.put(awsPath, fmt.Sprintf(theirs, metadata))
			before := l.text(awsPath)
			l.Begin()
			l.Pass(time.Minute)
			l.has(clusterPath, `"phase":"Provisioning"`, text)
			for _, part := range []string{"theirs", `"failureDomains"`, `"infrastructureProvisioned":true`, `"status":"True"`} {
				if strings.Contains(l.text(clusterPath), part) {
					t.Errorf("%s: the Cluster has %s", metadata, part)
				}
			}
			if l.text(awsPath) != before {
				t.Errorf("%s: %s", metadata, l.text(awsPath))
			}
			l.API.Do(func() {
				o := l.API.Stored(awsPath)
				m := o["metadata"].(map[string]any)
				delete(m, "resourceVersion")
				delete(m, "deletionTimestamp")
				m["ownerReferences"] = []any{}
				l.API.ChangeObject("MODIFIED", awsPath, o)
			})
			l.Pass(time.Minute)
			l.has(clusterPath, `"phase":"Provisioned"`, `"host":"theirs"`)
			l.has(awsPath, `"name":"prod"`, `"kind":"Cluster"`)
		})
	}
}

// TestTwoClustersOfOneInfrastructure: one of them gets it, and goes on. The other one says why
// it does not.
func TestTwoClustersOfOneInfrastructure(t *testing.T) {
	inLab(t, beta2, func(l *lab) {
		paths := map[string]string{"prod": clusterPath, "prod-2": strings.Replace(clusterPath, "/prod", "/prod-2", 1)}
		for _, path := range paths {
			l.put(path, reference)
		}
		l.put(awsPath, `{"metadata": {}, "spec": {"controlPlaneEndpoint": {"host": "prod.example.com", "port": 6443}}, "status": {"ready": true}}`)
		l.Begin()
		l.Pass(time.Minute)
		owner := "prod"
		if strings.Contains(l.text(awsPath), `"name":"prod-2"`) {
			owner = "prod-2"
		}
		for name, path := range paths {
			if name == owner {
				l.has(path, `"phase":"Provisioned"`, `"host":"prod.example.com"`)
			} else {
				l.has(path, "belongs to Cluster "+owner)
			}
		}
	})
}

// TestPausedInfrastructureGetsNoOwner: a pause of the AWSCluster alone stops writes of it.
func TestPausedInfrastructureGetsNoOwner(t *testing.T) {
	inLab(t, beta2, func(l *lab) {
		l.put(clusterPath, reference)
		l.put(awsPath, `{"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}`)
		before := l.text(awsPath)
		l.Begin()
		l.Pass(time.Minute)
		if l.text(awsPath) != before {
			t.Errorf("%s", l.text(awsPath))
		}
	})
}

// TestDomainsAreWrittenOnce: failure domains that a Cluster stores in another form, or that go,
// cause no further writes.
func TestDomainsAreWrittenOnce(t *testing.T) {
	for version, path := range []string{strings.Replace(clusterPath, "v1beta2", "v1beta1", 1), clusterPath} {
		inLab(t, version, func(l *lab) {
			l.put(path, reference)
			set := func(domains string) (text string) {
				l.put(awsPath, `{"metadata": {}, "status": {"ready": true, "failureDomains": `+domains+`}}`)
				l.Pass(time.Minute)
				text = l.text(path)
				l.Pass(10 * time.Minute)
				if now := l.text(path); now != text {
					t.Errorf("%s: %s\nafter %s", domains, now, text)
				}
				return text
			}
			l.Begin()
			set(`[{"name": "z", "attributes": {}}, {"name": "b", "controlPlane": true, "attributes": {"k": "v"}}, {"name": "b"}]`)
			if text := set(`{"b": {"controlPlane": true}}`); strings.Contains(text, `"z"`) || strings.Contains(text, `"k"`) || !strings.Contains(text, `"b"`) {
				t.Errorf("the Cluster has %s", text)
			}
		})
	}
}

// TestControlPlaneMakesItsKubeconfig: a Cluster with a controlPlaneRef gets it from that.
func TestControlPlaneMakesItsKubeconfig(t *testing.T) {
	inLab(t, beta2, func(l *lab) {
		l.put(clusterPath, strings.Replace(reference, `"spec": {`, `"spec": {"controlPlaneRef": {"kind": "KubeadmControlPlane", "name": "prod"}, "controlPlaneEndpoint": {"host": "a", "port": 443}, `, 1))
		l.ca()
		l.Begin()
		l.Pass(time.Minute)
		if text := l.text(secretsPath + "prod-kubeconfig"); text != "" {
			t.Error("the kubeconfig was made")
		}
	})
}

// TestReadingOfAnotherEndpointIsDropped: an answer of an earlier endpoint says nothing about the
// present one, which is asked at once.
func TestReadingOfAnotherEndpointIsDropped(t *testing.T) {
	c := New(controller.New(controller.Options{}), Options{})
	var o capi.Cluster
	if err := json.Unmarshal([]byte(strings.Replace(reference, `"metadata": {}, "spec": {`, `"metadata": {"name": "prod", "uid": "u"}, "spec": {"controlPlaneEndpoint": {"host": "new", "port": 443}, `, 1)), &o); err != nil {
		t.Fatal(err)
	}
	c.versions[beta2] = map[string]capi.Cluster{"/prod": o}
	c.judge("/prod")
	s := c.states["/prod"]
	keys, _ := c.readDue(time.Now())
	if len(keys) != 1 || !s.looking || s.looked != o.Spec.Endpoint {
		t.Fatalf("%v: %+v", keys, s)
	}
	other := o.Metadata
	other.UID = "other"
	for _, of := range []question{{meta: o.Metadata, endpoint: capi.Endpoint{Host: "old", Port: 443}}, {meta: other, endpoint: o.Spec.Endpoint}} {
		s.looking = true
		c.take(keys, map[string]found{keys[0]: {of: of, state: secretState{answers: true}}})
		if again, _ := c.reads.Pop(time.Now()); s.secrets.answers || s.looking || again != "/prod" {
			t.Errorf("%+v: %+v, again %q", of, s, again)
		}
	}
	s.looking = true
	c.take(keys, map[string]found{keys[0]: {of: question{meta: o.Metadata, endpoint: o.Spec.Endpoint}, state: secretState{answers: true}}})
	if !s.secrets.answers {
		t.Error("the answer of the endpoint is dropped, too")
	}
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

// TestReadingsOfOneNameDoNotMix: a Cluster is created again before the reading of the earlier
// one has begun.
func TestReadingsOfOneNameDoNotMix(t *testing.T) {
	c := New(controller.New(controller.Options{}), Options{})
	var asked []string
	for _, uid := range []string{"u", "v"} {
		var o capi.Cluster
		o.Metadata.Namespace, o.Metadata.Name, o.Metadata.UID = "default", "prod", uid
		o.Spec.Infrastructure.Group, o.Spec.Infrastructure.Kind, o.Spec.Infrastructure.Name = infraGroup, infraKind, "prod"
		o.Spec.Endpoint = capi.Endpoint{Host: "api.example.org", Port: 6443}
		c.versions[beta2] = map[string]capi.Cluster{}
		c.judge(o.Metadata.Key()) // the earlier one is deleted
		c.versions[beta2][o.Metadata.Key()] = o
		c.judge(o.Metadata.Key())
		keys, _ := c.readDue(time.Now())
		asked = append(asked, keys...)
	}
	if len(asked) != 2 {
		t.Fatalf("readings of %q", asked)
	}
	for i, uid := range []string{"u", "v"} {
		what, has := c.asked.LoadAndDelete(asked[i])
		if !has || what.(question).meta.UID != uid {
			t.Fatalf("the reading of %s is of %+v", uid, what)
		}
		c.take(asked[i:i+1], map[string]found{asked[i]: {of: what.(question), state: secretState{read: true, problem: uid}}})
	}
	if s := c.states["default/prod"]; s == nil || s.secrets.problem != "v" {
		t.Errorf("it knows %+v", s)
	}
}
