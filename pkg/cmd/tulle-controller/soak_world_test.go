package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/controller/cloudnode"
	"github.com/tulle-net/tulle/pkg/controller/lifecycle"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

const (
	soakNodes = 24
	// leaseNamespace is where kubelets renew their Leases.
	leaseNamespace = "kube-node-lease"
	// unheard is after how long a Node is not ready.
	unheard = 4 * time.Second
)

// machine is what has a name at the moment: an instance and its kubelet.
type machine struct {
	name     string
	at       awstest.Instance
	cut      bool // its kubelet does not reach the API server
	stopped  bool
	register bool // its kubelet has just started
	boots    int
}

// works reports whether its kubelet reaches the API server.
func (m *machine) works(ended map[string]time.Time) bool {
	return !m.cut && !m.stopped && ended[m.at.ID].IsZero()
}

// soakWorld is a cluster on AWS in which everything happens at random.
type soakWorld struct {
	*site
	rnd      *rand.Rand
	replicas []*kerneltest.Process
	args     []string
	over     chan struct{}
	stranger string // the interface of a machine of others
	ticking  sync.WaitGroup

	// The following are used inside Do alone.
	machines map[string]*machine
	ended    map[string]time.Time // when instances ended, by ID
	heard    map[string]time.Time // kubelets, by Node
	known    map[string]*corev1.Node
	removed  map[types.UID]bool // by people
	foreign  map[string]string  // destinations of others, by table and destination
	made     int
	deleted  int
	recent   []time.Time
	done     map[string]int // what happened, by its name
}

func newSoak(t *testing.T, seed uint64) *soakWorld {
	t.Setenv(hurried, fmt.Sprint(soakPace))
	w := &soakWorld{
		site: newSite(t, 0, 2), rnd: rand.New(rand.NewPCG(seed, 16)), over: make(chan struct{}),
		machines: make(map[string]*machine), ended: make(map[string]time.Time), heard: make(map[string]time.Time),
		known: make(map[string]*corev1.Node), removed: make(map[types.UID]bool), foreign: make(map[string]string), done: make(map[string]int),
	}
	w.args = append([]string{
		"--controllers=cloud-node,cloud-node-lifecycle,route,nodeipam", "--cloud-provider=aws", "--cluster-name=" + siteName,
		"--route-reconciliation-period=10s", "--route-removal-grace=10s", "--node-monitor-period=2s",
	}, short...)
	w.usual()
	w.stranger = w.aws.Launch(awstest.Launch{})[0].Interface // of no cluster
	for _, table := range w.tables {
		w.foreign[table+" 10.200.0.0/16"] = w.stranger
		w.aws.SetRoute(table, "10.200.0.0/16", w.stranger)
	}
	for range soakNodes {
		w.launch("")
	}
	for range 2 {
		w.replicas = append(w.replicas, w.cluster.launch(w.args...))
	}
	w.ticking.Go(w.kubelets)
	t.Cleanup(w.stop)
	return w
}

// usual ends what is wrong with the cloud and the API server.
func (w *soakWorld) usual() {
	w.aws.Set(func(s *awstest.Settings) {
		s.RoutesPerTable, s.Page, s.Visible = 500, 7, 8*time.Minute
		s.Lag, s.LagWrites = 0, false
		s.Boot, s.Stop, s.Terminate = 500*time.Millisecond, time.Second, time.Second
		s.Latency = map[string]time.Duration{"": 20 * time.Millisecond}
	})
	w.aws.SetKey(awstest.Key{ID: awstest.AccessKey, Secret: awstest.SecretKey})
	w.Do(func() { w.Refuse, w.Lose, w.Hold = nil, nil, nil })
}

// stop ends kubelets and replicas.
func (w *soakWorld) stop() {
	select {
	case <-w.over:
		return
	default:
	}
	close(w.over)
	w.ticking.Wait()
	for _, r := range w.replicas {
		r.End(syscall.SIGKILL)
	}
}

// launch starts a machine, under the name of one that ended if it is given.
func (w *soakWorld) launch(name string) {
	l := awstest.Launch{Tags: map[string]string{"kubernetes.io/cluster/" + siteName: "owned"}}
	w.Do(func() {
		if m := w.machines[name]; m != nil {
			l.Private, l.Subnet = m.at.Private.String(), m.at.Subnet
		}
	})
	at := w.aws.Launch(l)[0]
	w.Do(func() {
		old := w.machines[at.Name]
		w.machines[at.Name] = &machine{name: at.Name, at: at, register: old == nil || w.Nodes[at.Name] == nil}
	})
}

// kubelets renews Leases, and keeps the condition Ready, until the soak ends.
func (w *soakWorld) kubelets() {
	for {
		w.Do(w.tick)
		select {
		case <-w.over:
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// tick looks at all Nodes, as kubelets and a node controller do.
func (w *soakWorld) tick() {
	now := time.Now()
	w.watch(now)
	for _, name := range slices.Sorted(maps.Keys(w.machines)) {
		m := w.machines[name]
		if !m.works(w.ended) || now.Sub(w.heard[name]) < time.Second {
			continue
		}
		if w.Nodes[name] == nil {
			if !m.register {
				continue
			}
			w.Change("ADDED", w.registered(m))
		}
		m.register = false
		w.heard[name] = now
		w.ChangeObject("MODIFIED", "apis/coordination.k8s.io/v1/namespaces/"+leaseNamespace+"/leases/"+name, map[string]any{
			"spec": map[string]any{"holderIdentity": name, "renewTime": now.UTC().Format(metav1.RFC3339Micro)},
		})
		w.boot(name, fmt.Sprintf("%s-%d", m.at.ID, m.boots))
		w.ready(name, corev1.ConditionTrue)
	}
	for name := range w.Nodes {
		if now.Sub(w.heard[name]) > unheard {
			w.ready(name, corev1.ConditionUnknown)
		}
	}
	w.known = maps.Clone(w.Nodes)
}

// registered returns the Node that a machine's kubelet registers.
func (w *soakWorld) registered(m *machine) *corev1.Node {
	w.made++
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.name, UID: types.UID(fmt.Sprintf("uid-%d", w.made))}}
	n.Spec.Taints = []corev1.Taint{{Key: cloudnode.Taint, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: m.name}}
	return n
}

// boot sets the ID of the last boot of a Node's machine.
func (w *soakWorld) boot(name, id string) {
	if n := w.Nodes[name]; n.Status.NodeInfo.BootID != id {
		n = n.DeepCopy()
		n.Status.NodeInfo.BootID = id
		w.Change("MODIFIED", n)
	}
}

// ready sets a Node's condition Ready.
func (w *soakWorld) ready(name string, s corev1.ConditionStatus) {
	n := w.Nodes[name]
	is := corev1.NodeCondition{Type: corev1.NodeReady, Status: s, LastTransitionTime: metav1.Now()}
	for i, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			if c.Status != s {
				n = n.DeepCopy()
				n.Status.Conditions[i] = is
				w.Change("MODIFIED", n)
			}
			return
		}
	}
	n = n.DeepCopy()
	n.Status.Conditions = append(n.Status.Conditions, is)
	w.Change("MODIFIED", n)
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// instanceOf returns the ID of a Node's instance.
func instanceOf(n *corev1.Node) string {
	return n.Spec.ProviderID[strings.LastIndex(n.Spec.ProviderID, "/")+1:]
}

// watch checks each Node that the program has deleted since the last tick.
func (w *soakWorld) watch(now time.Time) {
	enough, hour := lifecycle.Usual.Over(soakPace).Enough, lifecycle.Usual.Over(soakPace).Hour
	for name, n := range w.known {
		if is := w.Nodes[name]; is != nil && is.UID == n.UID || w.removed[n.UID] {
			continue
		}
		end := w.ended[instanceOf(n)]
		w.recent = slices.DeleteFunc(w.recent, func(at time.Time) bool { return now.Sub(at) >= hour-time.Second })
		most := max(1, (len(w.known)+2+len(w.recent))*5/100) // two may be new since the last tick
		gone := 0
		for _, other := range w.known {
			if !w.ended[instanceOf(other)].IsZero() && !isReady(other) {
				gone++
			}
		}
		switch {
		case n.Spec.ProviderID == "":
			w.t.Errorf("%s is deleted, and has no instance", name)
		case end.IsZero():
			w.t.Errorf("%s is deleted, and its instance %s lives", name, n.Spec.ProviderID)
		case now.Sub(end) < enough:
			w.t.Errorf("%s is deleted %s after its end", name, now.Sub(end))
		case isReady(n):
			w.t.Errorf("%s is deleted, and was ready", name)
		case n.Annotations[lifecycle.Mark] == n.Spec.ProviderID:
			w.t.Errorf("%s is deleted, and has the mark of another machine", name)
		case 2*gone > len(w.known):
			w.t.Errorf("%s is deleted while %d of %d are gone", name, gone, len(w.known))
		case len(w.recent) >= most:
			w.t.Errorf("%s is deleted, the %dth of %d within %s", name, len(w.recent)+1, len(w.known), hour)
		}
		w.recent = append(w.recent, now)
		w.deleted++
	}
}

// remove deletes a Node as a person does, and restarts the kubelet of its machine.
func (w *soakWorld) remove(name string) {
	if n := w.Nodes[name]; n != nil {
		w.removed[n.UID] = true
		w.Change("DELETED", n.DeepCopy())
	}
	if m := w.machines[name]; m != nil {
		m.register = true
		if !w.ended[m.at.ID].IsZero() {
			delete(w.machines, name)
		}
	}
}

// score says what happened.
func (w *soakWorld) score() (text string) {
	w.Do(func() {
		var all []string
		for _, what := range slices.Sorted(maps.Keys(w.done)) {
			all = append(all, fmt.Sprintf("%s %d", what, w.done[what]))
		}
		text = fmt.Sprintf("%d Nodes, %d registered, %d deleted by the program; %s; calls %v", len(w.Nodes), w.made, w.deleted, strings.Join(all, ", "), w.aws.Counts())
	})
	return text
}
