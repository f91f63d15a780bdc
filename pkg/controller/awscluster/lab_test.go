package awscluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/awsnet/apply"
	"github.com/tulle-net/tulle/pkg/awsnet/awsnettest"
	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/labtest"
	"github.com/tulle-net/tulle/pkg/kube/capi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// account is an account in one region, with faults to inject.
type account struct {
	mu     sync.Mutex
	model  *awsnettest.Account
	region string
	usage  map[string]awsnet.Usage
	// calls counts what was asked, by name, and reads the scopes of readings.
	calls  map[string]int
	scopes []Scope
	// fail returns the error of a call: of Zones, Network, Usage, Now, or an action of AWS.
	fail func(call string) error
	// lose returns the error of a change that was made.
	lose func(call string) error
	// late reports that AWS carries out a call without an answer, also if the caller is gone.
	// What it makes is not shown before hidden says.
	late   func(call string) bool
	hidden map[string]time.Time
	slow   time.Duration // each call takes
	idle   bool          // AWS ends nothing in the background
	now    int           // changes in flight
	most   int
}

func newAccount(region string) *account {
	return &account{model: awsnettest.New(), region: region, calls: make(map[string]int), hidden: make(map[string]time.Time)}
}

// ask counts a call, and returns its error.
func (a *account) ask(ctx context.Context, call string) error {
	if a.slow > 0 {
		select {
		case <-time.After(a.slow):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls[call]++
	if a.fail != nil {
		return a.fail(call)
	}
	return nil
}

// Do calls f while no call is made.
func (a *account) Do(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// count returns how often something was asked.
func (a *account) count(call string) (n int) {
	a.Do(func() { n = a.calls[call] })
	return n
}

// made returns the number of calls that may change something.
func (a *account) made() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for call, times := range a.calls {
		if !slices.Contains([]string{"Zones", "Network", "Usage", "Now"}, call) {
			n += times
		}
	}
	return n
}

// left returns the objects with a tag of a cluster.
func (a *account) left(owner awsnet.Owner) (ids []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.model.Read().Found {
		if owner.Owns(f.Tags) {
			ids = append(ids, f.ID)
		}
	}
	return ids
}

func (a *account) Zones(ctx context.Context) (zones []awsnet.Zone, err error) {
	for _, letter := range "abc" {
		zones = append(zones, awsnet.Zone{Name: a.region + string(letter), Type: awsnet.RegularZone, Usable: true})
	}
	return zones, a.ask(ctx, "Zones")
}

func (a *account) Network(ctx context.Context, s Scope) (awsnet.Account, error) {
	if err := a.ask(ctx, "Network"); err != nil {
		return awsnet.Account{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.scopes = append(a.scopes, s)
	read := a.model.Read()
	read.Found = slices.DeleteFunc(read.Found, func(f awsnet.Found) bool { return time.Now().Before(a.hidden[f.ID]) })
	return read, nil
}

func (a *account) Usage(ctx context.Context, _ awsnet.View) (map[string]awsnet.Usage, error) {
	return a.usage, a.ask(ctx, "Usage")
}

func (a *account) Change(ctx context.Context, _ awsnet.Owner, call awsnet.Call, all []apply.Change) (made []apply.Made, err error) {
	a.Do(func() {
		a.now++
		a.most = max(a.most, a.now)
	})
	defer a.Do(func() { a.now-- })
	if err := a.ask(ctx, call.Action); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, x := range all {
		id, given, err := a.model.Do(x.Step, call, x.ID, x.Object)
		if err != nil {
			return nil, &cloud.Error{Kind: cloud.Refused, Action: call.Action, Text: err.Error()}
		}
		made = append(made, apply.Made{ID: id, Given: given})
		if a.late != nil && a.late(call.Action) {
			a.hidden[id] = time.Now().Add(lateTime - time.Second)
			a.mu.Unlock()
			<-ctx.Done()
			a.mu.Lock()
			return nil, ctx.Err()
		}
	}
	if a.lose != nil {
		if err := a.lose(call.Action); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func (a *account) Now(ctx context.Context, ids []string) (map[string]awsnet.Found, error) {
	if err := a.ask(ctx, "Now"); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.idle {
		a.model.Tick()
	}
	found := make(map[string]awsnet.Found)
	for _, id := range ids {
		if f := a.model.Get(id); f.ID != "" {
			found[id] = f
		}
	}
	return found, nil
}

// lab is an API server, accounts and a controller.
type lab struct {
	*labtest.Lab
	accounts map[string]*account
	preview  bool
	c        *Controller // of the last replica
}

const home = "us-east-1"

// inLab runs a test with a started controller, and one account.
func inLab(t *testing.T, test func(l *lab)) {
	t.Helper()
	labtest.Run(t, func(in *labtest.Lab) {
		l := &lab{Lab: in, accounts: map[string]*account{home: newAccount(home)}}
		l.API.Serves[AWSClusters] = Kind
		l.API.Serves[capi.Clusters] = "Cluster"
		l.API.Serves["apis/apiextensions.k8s.io/v1/customresourcedefinitions"] = "CustomResourceDefinition"
		l.define(capi.Beta2)
		l.start()
		test(l)
	})
}

// define sets the contract of the CustomResourceDefinition.
func (l *lab) define(c capi.Contract) {
	l.API.Do(func() {
		l.API.ChangeObject("MODIFIED", definition, map[string]any{"metadata": map[string]any{"labels": map[string]string{capi.Group + "/" + string(c): version}}})
	})
}

// start starts a replica.
func (l *lab) start() {
	var mode controller.Mode
	if l.preview {
		mode = controller.ObserveMode
	}
	l.Start(controller.Options{Mode: mode}, func(e *controller.Engine) {
		l.c = New(e, Options{
			Client: l.Client, Period: time.Minute, Preview: l.preview, Event: e.Event,
			Region: func(name string) (Cloud, error) {
				if a := l.accounts[name]; a != nil {
					return a, nil
				}
				return nil, fmt.Errorf("no region %q", name)
			},
		})
	})
}

// crash ends the replica in the middle of everything, and starts another one.
func (l *lab) crash() {
	l.Kill()
	l.start()
	l.Begin()
}

func clusterPath(name string) string {
	return strings.Replace(capi.Clusters, "/clusters", "/namespaces/default/clusters/"+name, 1)
}

func awsPath(name string) string {
	return strings.Replace(AWSClusters, "/awsclusters", "/namespaces/default/awsclusters/"+name, 1)
}

// small is a spec of three zones.
const small = `{"region": "us-east-1", "network": {"vpc": {"cidrBlock": "10.0.0.0/24"}}}`

// cluster adds a Cluster, or changes its spec.
func (l *lab) cluster(name, spec string) {
	l.object("MODIFIED", clusterPath(name), map[string]any{"metadata": map[string]any{}, "spec": raw(l.T, spec)})
}

// awsCluster adds an AWSCluster of a Cluster.
func (l *lab) awsCluster(name, spec string, metadata ...string) {
	m := map[string]any{"ownerReferences": []map[string]any{{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": name, "uid": "uid-of-" + name}}, "generation": 1}
	for _, text := range metadata {
		maps.Copy(m, raw(l.T, text).(map[string]any))
	}
	l.object("ADDED", awsPath(name), map[string]any{"metadata": m, "spec": raw(l.T, spec)})
}

func (l *lab) object(kind, path string, o map[string]any) {
	l.API.Do(func() { l.API.ChangeObject(kind, path, o) })
}

func raw(t testing.TB, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// edit changes an AWSCluster, or another object, as a person does.
func (l *lab) edit(path string, f func(o map[string]any)) {
	l.Helper()
	l.API.Do(func() {
		o := l.API.Stored(path)
		if o == nil {
			l.Errorf("%s does not exist", path)
			return
		}
		f(o)
		delete(o["metadata"].(map[string]any), "resourceVersion")
		l.API.ChangeObject("MODIFIED", path, o)
	})
}

// spec changes the spec of an AWSCluster.
func (l *lab) spec(name, text string) {
	l.edit(awsPath(name), func(o map[string]any) {
		e := o["spec"].(map[string]any)["controlPlaneEndpoint"]
		o["spec"] = raw(l.T, text)
		if e != nil {
			o["spec"].(map[string]any)["controlPlaneEndpoint"] = e
		}
		m := o["metadata"].(map[string]any)
		m["generation"] = toInt(m["generation"]) + 1
	})
}

func toInt(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case float64:
		return int64(v)
	}
	return 0
}

// delete deletes an AWSCluster.
func (l *lab) delete(name string) {
	l.edit(awsPath(name), func(o map[string]any) {
		o["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-02T03:04:05Z"
	})
}

// get returns an AWSCluster as the controller reads it, and false if it is gone.
func (l *lab) get(name string) (o object, exists bool) {
	l.Helper()
	stored := l.API.Object(awsPath(name))
	if stored == nil {
		return o, false
	}
	text, err := json.Marshal(stored)
	if err != nil {
		l.Fatal(err)
	}
	if err := json.Unmarshal(text, &o); err != nil {
		l.Fatal(err)
	}
	return o, true
}

// condition returns a condition of an AWSCluster, like "True Ready: text".
func (l *lab) condition(name, kind string) string {
	l.Helper()
	o, _ := l.get(name)
	for _, c := range o.status.Conditions {
		if c.Type == kind {
			return strings.TrimSpace(c.Status + " " + c.Reason + ": " + c.Message)
		}
	}
	return ""
}

// wants fails unless a condition contains all parts.
func (l *lab) wants(name, kind string, parts ...string) {
	l.Helper()
	got := l.condition(name, kind)
	for _, p := range parts {
		if !strings.Contains(got, p) || got == "" {
			l.Errorf("%s: %s is %q and lacks %q", name, kind, got, p)
		}
	}
}

// ready fails unless an AWSCluster is provisioned.
func (l *lab) ready(name string) object {
	l.Helper()
	o, _ := l.get(name)
	if !o.status.Ready || !o.status.Initialization.Provisioned || !strings.HasPrefix(l.condition(name, "Ready"), "True") || !o.rest.Endpoint.Valid() {
		l.Errorf("%s is not ready: %+v, endpoint %+v", name, o.status, o.rest.Endpoint)
	}
	return o
}

// owner returns whose the network of an AWSCluster is.
func (l *lab) owner(name string) awsnet.Owner {
	l.Helper()
	o, _ := l.get(name)
	i, err := readIdentity(o.Metadata.Annotations[NetworkAnnotation])
	if err != nil {
		l.Error(err)
	}
	return i.owner()
}

// build adds a Cluster with its AWSCluster, and waits until it is ready.
func (l *lab) build() {
	l.Helper()
	l.cluster("prod", `{}`)
	l.awsCluster("prod", small)
	l.Begin()
	l.Pass(2 * time.Minute)
	l.ready("prod")
}

var errDown = &cloud.Error{Kind: cloud.Unavailable, Action: "x", Text: "the connection broke"}
