package apitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// read reads the JSON of a request's body.
func (f *Server) read(w http.ResponseWriter, r *http.Request) (document map[string]any, ok bool) {
	if err := json.NewDecoder(r.Body).Decode(&document); err != nil {
		f.t.Errorf("%s %s: the body: %v", r.Method, r.URL, err)
		f.Fail(w, r, Refusal(http.StatusBadRequest, err.Error()))
		return nil, false
	}
	return document, true
}

// change runs a write, and answers with the object, or with why there is none.
func (f *Server) change(w http.ResponseWriter, r *http.Request, t target, write func() (code int, o Object, s *metav1.Status)) {
	var code int
	var o Object
	var s *metav1.Status
	f.Do(func() { code, o, s = write() })
	switch {
	case s != nil:
		f.Fail(w, r, s)
	case o == nil:
		_, _ = typed(w, asJSON).Write(f.json(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"}))
	default:
		f.send(w, r, t, code, o)
	}
}

func (f *Server) create(w http.ResponseWriter, r *http.Request, t target) {
	document, ok := f.read(w, r)
	if !ok {
		return
	}
	f.change(w, r, t, func() (int, Object, *metav1.Status) { return f.created(t, document) })
}

// created creates an object. The caller holds mu.
func (f *Server) created(t target, document map[string]any) (int, Object, *metav1.Status) {
	o, err := t.parse(document)
	if err != nil {
		return 0, nil, status(apierrors.NewBadRequest(err.Error()))
	}
	if o.GetName() == "" && o.GetGenerateName() != "" {
		o.SetName(fmt.Sprintf("%s%05d", o.GetGenerateName(), f.revision%100_000))
	}
	t.name = o.GetName()
	switch {
	case t.name == "":
		return 0, nil, t.invalid("metadata.name", "Required value: name or generateName is required")
	case o.GetResourceVersion() != "":
		s := Refusal(http.StatusInternalServerError, "resourceVersion should not be set on objects to be created")
		s.Reason = ""
		return 0, nil, s
	case f.at(t) != nil:
		return 0, nil, status(apierrors.NewAlreadyExists(t.group(), t.name))
	}
	o.SetNamespace(t.namespace)
	o.SetUID(types.UID(fmt.Sprintf("uid-%d", f.revision)))
	o.SetCreationTimestamp(metav1.NewTime(time.Unix(1_700_000_000+f.revision, 0)))
	o.SetDeletionTimestamp(nil)
	if n, isNode := o.(*corev1.Node); isNode {
		if len(n.Spec.PodCIDRs) == 0 && n.Spec.PodCIDR == "" && f.Gives != nil {
			n.Spec.PodCIDRs = f.Gives(f.made)
			f.made++
		}
		settleCIDRs(n)
	}
	if s := t.validate(o, nil); s != nil {
		return 0, nil, s
	}
	f.write(t, "ADDED", o)
	return http.StatusCreated, f.at(t), nil
}

func (f *Server) update(w http.ResponseWriter, r *http.Request, t target) {
	document, ok := f.read(w, r)
	if !ok {
		return
	}
	f.change(w, r, t, func() (int, Object, *metav1.Status) {
		o, err := t.parse(document)
		before := f.at(t)
		var uid types.UID
		if before != nil {
			uid = before.GetUID()
		}
		switch {
		case err != nil:
			return 0, nil, status(apierrors.NewBadRequest(err.Error()))
		case o.GetName() != t.name:
			return 0, nil, status(apierrors.NewBadRequest("the name of the object does not match the name on the URL"))
		case before == nil && t.resource != leases:
			return 0, nil, absent(t)
		case o.GetUID() != "" && o.GetUID() != uid:
			return 0, nil, t.conflict(fmt.Sprintf("Precondition failed: UID in precondition: %s, UID in object meta: %s", o.GetUID(), uid))
		case before == nil: // a Lease may be created so
			return f.created(t, document)
		case o.GetResourceVersion() == "" && t.resource != nodes:
			return 0, nil, t.invalid("metadata.resourceVersion", "Invalid value: 0: must be specified for an update")
		}
		return f.replaced(t, before, o)
	})
}

func (f *Server) patch(w http.ResponseWriter, r *http.Request, t target) {
	change, ok := f.read(w, r)
	if !ok {
		return
	}
	kind := r.Header.Get("Content-Type")
	if kind != asMergePatch && kind != asStrategicPatch {
		f.t.Errorf("a patch of %q", kind)
		f.Fail(w, r, Refusal(http.StatusUnsupportedMediaType, "the body of the request was in an unknown format"))
		return
	}
	f.change(w, r, t, func() (int, Object, *metav1.Status) {
		before := f.at(t)
		if before == nil {
			return 0, nil, absent(t)
		}
		if kind == asStrategicPatch {
			mergeLists(t.document(before), change)
		}
		o, err := t.parse(merge(t.document(before), change).(map[string]any))
		if err != nil {
			return 0, nil, t.invalid("patch", "Invalid value: "+err.Error())
		}
		return f.replaced(t, before, o)
	})
}

// replaced writes the new state of an object that is there. The caller holds mu.
func (f *Server) replaced(t target, before, o Object) (int, Object, *metav1.Status) {
	if version := o.GetResourceVersion(); version != "" && version != before.GetResourceVersion() {
		return 0, nil, t.conflict("the object has been modified; please apply your changes to the latest version and try again")
	}
	o.SetResourceVersion(before.GetResourceVersion())
	if o.GetUID() == "" {
		o.SetUID(before.GetUID())
	}
	o.SetCreationTimestamp(before.GetCreationTimestamp())
	o.SetDeletionTimestamp(before.GetDeletionTimestamp())
	if n, isNode := o.(*corev1.Node); isNode {
		old := before.(*corev1.Node)
		if t.part == "status" {
			n.Spec = old.Spec
		} else {
			n.Status = old.Status
		}
		settleCIDRs(n)
	}
	if s := t.validate(o, before); s != nil {
		return 0, nil, s
	}
	switch {
	case o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0:
		f.write(t, "DELETED", o)
		return http.StatusOK, o, nil
	case !reflect.DeepEqual(t.document(o), t.document(before)):
		f.write(t, "MODIFIED", o)
	}
	return http.StatusOK, f.at(t), nil
}

func (f *Server) remove(w http.ResponseWriter, r *http.Request, t target) {
	var options metav1.DeleteOptions
	if err := json.NewDecoder(r.Body).Decode(&options); err != nil && !errors.Is(err, io.EOF) {
		f.t.Errorf("DELETE %s: the body: %v", r.URL, err)
	}
	f.change(w, r, t, func() (int, Object, *metav1.Status) {
		o, p := f.at(t), options.Preconditions
		switch {
		case o == nil:
			return 0, nil, absent(t)
		case p != nil && p.UID != nil && *p.UID != o.GetUID():
			return 0, nil, t.conflict("the UID in the precondition does not match the UID in record")
		case p != nil && p.ResourceVersion != nil && *p.ResourceVersion != o.GetResourceVersion():
			return 0, nil, t.conflict("the ResourceVersion in the precondition does not match the ResourceVersion in record")
		case len(o.GetFinalizers()) == 0:
			f.write(t, "DELETED", o)
			return 0, nil, nil
		case o.GetDeletionTimestamp() == nil:
			o = o.DeepCopyObject().(Object)
			now := metav1.NewTime(time.Unix(1_700_000_000+f.revision, 0))
			o.SetDeletionTimestamp(&now)
			f.write(t, "MODIFIED", o)
		}
		return http.StatusOK, f.at(t), nil
	})
}

// merge applies a merge patch (RFC 7396).
func merge(to, patch any) any {
	change, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	object, _ := to.(map[string]any)
	if object = maps.Clone(object); object == nil {
		object = make(map[string]any)
	}
	for name, value := range change {
		if value == nil {
			delete(object, name)
		} else {
			object[name] = merge(object[name], value)
		}
	}
	return object
}

func (t target) conflict(why string) *metav1.Status {
	return status(apierrors.NewConflict(t.group(), t.name, errors.New(why)))
}

func (t target) invalid(field, why string) *metav1.Status {
	s := status(apierrors.NewInvalid(schema.GroupKind{Group: t.group().Group, Kind: t.kind}, t.name, nil))
	s.Message = fmt.Sprintf("%s %q is invalid: %s: %s", t.kind, t.name, field, why)
	return s
}
