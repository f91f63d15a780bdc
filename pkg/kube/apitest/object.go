package apitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Object is an object of any resource: a *corev1.Node, or what others are as JSON.
type Object interface {
	metav1.Object
	runtime.Object
}

// The resources that the server treats in ways of their own.
const (
	nodes  = "api/v1/nodes"
	events = "api/v1/events"
	leases = "apis/coordination.k8s.io/v1/leases"
)

// target is what a request is about.
type target struct {
	resource  string // the path of a resource in all namespaces
	kind      string
	namespace string
	name      string // empty for all objects
	part      string // the subresource
}

// targetOf returns what a request is about. It knows the kind of Nodes alone.
func targetOf(r *http.Request) (t target) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group := 3 // apis, a group and its version
	if parts[0] == "api" {
		group = 2
	}
	if len(parts) <= group {
		return target{resource: r.URL.Path}
	}
	rest := parts[group:]
	if rest[0] == "namespaces" && len(rest) > 2 {
		t.namespace, rest = rest[1], rest[2:]
	}
	t.resource = strings.Join(append(parts[:group:group], rest[0]), "/")
	if len(rest) > 1 {
		t.name = rest[1]
	}
	if len(rest) > 2 {
		t.part = rest[2]
	}
	if t.resource == nodes {
		t.kind = "Node"
	}
	return t
}

// group returns the resource as refusals name it.
func (t target) group() schema.GroupResource {
	parts := strings.Split(t.resource, "/")
	if parts[0] == "api" {
		return schema.GroupResource{Resource: parts[len(parts)-1]}
	}
	return schema.GroupResource{Group: parts[1], Resource: parts[len(parts)-1]}
}

// version returns the apiVersion of the resource's objects.
func (t target) version() string {
	parts := strings.Split(t.resource, "/")
	return strings.Join(parts[1:len(parts)-1], "/")
}

// key returns what an object is stored under.
func key(o Object) string { return o.GetNamespace() + "/" + o.GetName() }

func (t target) key() string { return t.namespace + "/" + t.name }

// selects reports whether a request for all objects, or a watch, is about o.
func (t target) selects(r *http.Request, o Object) bool {
	selector := r.URL.Query().Get("fieldSelector")
	return (t.namespace == "" || t.namespace == o.GetNamespace()) && (selector == "" || selector == "metadata.name="+o.GetName())
}

// at returns an object, or nil. The caller holds mu.
func (f *Server) at(t target) Object {
	if t.resource == nodes {
		if n := f.Nodes[t.name]; n != nil {
			return n
		}
		return nil
	}
	if o := f.objects[t.resource][t.key()]; o != nil {
		return o
	}
	return nil
}

// write writes an object, with an event of that kind. The caller holds mu.
func (f *Server) write(t target, kind string, o Object) {
	f.revision++
	o = o.DeepCopyObject().(Object)
	o.SetResourceVersion(fmt.Sprint(f.revision))
	switch n, isNode := o.(*corev1.Node); {
	case isNode && kind == "DELETED":
		delete(f.Nodes, n.Name)
	case isNode:
		f.Nodes[n.Name] = n
	case kind == "DELETED":
		delete(f.objects[t.resource], key(o))
	default:
		if f.objects[t.resource] == nil {
			f.objects[t.resource] = make(map[string]*unstructured.Unstructured)
		}
		f.objects[t.resource][key(o)] = o.(*unstructured.Unstructured)
	}
	f.log = append(f.log, event{t.resource, kind, o, f.revision})
}

// Object returns the present state of an object that is no Node as JSON, by its path
// without a leading slash, or nil.
func (f *Server) Object(path string) map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Stored(path)
}

// Stored is Object for calls inside Do.
func (f *Server) Stored(path string) map[string]any {
	t := f.targetAt(path)
	if o := f.objects[t.resource][t.key()]; o != nil {
		return o.DeepCopy().Object
	}
	return nil
}

// targetAt returns the object at a path.
func (f *Server) targetAt(path string) target {
	r, err := http.NewRequest(http.MethodPut, f.URL+"/"+path, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	t := targetOf(r)
	t.kind = f.Serves[t.resource]
	return t
}

// ChangeObject writes an object that is no Node, with an event of that kind, whatever
// the server would say of it. Call it inside Do.
func (f *Server) ChangeObject(kind, path string, document map[string]any) {
	t := f.targetAt(path)
	var own map[string]any // of JSON's types alone
	text, err := json.Marshal(document)
	if err == nil {
		err = json.Unmarshal(text, &own)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	o, err := t.parse(own)
	if err != nil {
		f.t.Fatal(err)
	}
	o.SetNamespace(t.namespace)
	o.SetName(t.name)
	if before := f.at(t); before != nil {
		o.SetUID(before.GetUID())
	} else if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", f.revision)))
	}
	f.write(t, kind, o)
}

// document returns an object as JSON, with its kind.
func (t target) document(o Object) map[string]any {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return u.DeepCopy().Object
	}
	all, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		panic(err) // all types are Kubernetes' own
	}
	all["kind"], all["apiVersion"] = t.kind, t.version()
	return all
}

// parse returns the object that a document describes.
func (t target) parse(document map[string]any) (Object, error) {
	document["kind"], document["apiVersion"] = t.kind, t.version()
	if t.resource != nodes {
		return &unstructured.Unstructured{Object: document}, nil
	}
	text, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	n := new(corev1.Node)
	err = json.Unmarshal(text, n)
	return n, err
}

// metadataOf returns an object's metadata.
func metadataOf(o Object) (metav1.ObjectMeta, error) {
	if n, ok := o.(*corev1.Node); ok {
		return n.ObjectMeta, nil
	}
	var all struct{ Metadata metav1.ObjectMeta }
	text, err := json.Marshal(o)
	if err != nil {
		return all.Metadata, err
	}
	err = json.Unmarshal(text, &all)
	return all.Metadata, err
}
