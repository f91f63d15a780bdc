package apitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (f *Server) create(w http.ResponseWriter, r *http.Request) {
	n := new(corev1.Node)
	if err := json.NewDecoder(r.Body).Decode(n); err != nil {
		f.t.Error(err)
	}
	exists := false
	f.Do(func() {
		if exists = f.Nodes[n.Name] != nil; exists {
			return
		}
		if len(n.Spec.PodCIDRs) == 0 && f.Gives != nil {
			n.Spec.PodCIDRs = f.Gives(f.made)
			f.made++
		}
		if len(n.Spec.PodCIDRs) > 0 {
			n.Spec.PodCIDR = n.Spec.PodCIDRs[0]
		}
		n.UID = types.UID(fmt.Sprintf("uid-%d", f.revision))
		n.CreationTimestamp = metav1.NewTime(time.Unix(1_700_000_000+f.revision, 0))
		f.Change("ADDED", n)
	})
	if exists {
		f.Fail(w, r, Refusal(http.StatusConflict, "already exists"))
		return
	}
	typed(w, asJSON).WriteHeader(http.StatusCreated)
}

func (f *Server) remove(w http.ResponseWriter, name string) {
	f.Do(func() {
		if n := f.Nodes[name]; n != nil {
			f.Change("DELETED", n)
		}
	})
	fmt.Fprint(typed(w, asJSON), "{}")
}

func (f *Server) patch(w http.ResponseWriter, r *http.Request, name string) {
	var p struct {
		Metadata struct {
			UID         types.UID
			Annotations map[string]*string
		}
		Spec struct{ PodCIDRs []string }
	}
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil || r.Header.Get("Content-Type") != asMergePatch {
		f.t.Errorf("a patch of %q: %v", r.Header.Get("Content-Type"), err)
	}
	var failure *metav1.Status
	var answer *corev1.Node
	f.Do(func() {
		n := f.Nodes[name]
		switch {
		case n == nil:
			failure = Refusal(http.StatusNotFound, "not found")
			return
		case p.Metadata.UID != "" && p.Metadata.UID != n.UID:
			failure = Refusal(http.StatusUnprocessableEntity, "metadata.uid: Invalid value: field is immutable")
			return
		}
		n = n.DeepCopy()
		if n.Annotations == nil {
			n.Annotations = make(map[string]string)
		}
		for key, value := range p.Metadata.Annotations {
			if value == nil {
				delete(n.Annotations, key)
			} else {
				n.Annotations[key] = *value
			}
		}
		if len(p.Spec.PodCIDRs) > 0 {
			n.Spec.PodCIDRs, n.Spec.PodCIDR = p.Spec.PodCIDRs, p.Spec.PodCIDRs[0]
		}
		f.Change("MODIFIED", n)
		answer = f.Nodes[name]
	})
	if failure != nil {
		f.Fail(w, r, failure)
		return
	}
	f.send(w, r, answer)
}
