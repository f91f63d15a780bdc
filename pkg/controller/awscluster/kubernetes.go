package awscluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/kube/capi"
)

// shownLimit is how long a write waits for the watch to show that the object has changed.
const shownLimit = time.Second

// Plan implements controller.Controller: finalizers, endpoints and statuses.
func (c *Controller) Plan(now time.Time, most int) (writes []controller.Write, again time.Time) {
	if c.options.Preview { // a preview shows all, also what is not due yet
		for _, key := range slices.Sorted(maps.Keys(c.networks)) {
			if w, ok := c.stepOf(c.networks[key], now); ok {
				writes = append(writes, w)
			}
		}
		return writes, time.Time{}
	}
	for len(writes) < most {
		key, due := c.steps.Pop(now)
		if !due {
			break
		}
		if n := c.networks[key]; n != nil {
			if w, ok := c.stepOf(n, now); ok {
				writes = append(writes, w)
			}
		}
	}
	return writes, c.steps.Next()
}

// stepOf returns the write that an AWSCluster needs now, if there is one.
func (c *Controller) stepOf(n *network, now time.Time) (w controller.Write, ok bool) {
	key := n.Key()
	switch {
	case n.writing || n.gate == Foreign || n.gate == Leaving:
		return w, false
	case now.Before(n.retry):
		c.steps.Set(key, n.retry)
		return w, false
	case n.gate == Open && n.deleting && n.gone():
		rest := slices.DeleteFunc(slices.Clone(n.Finalizers), func(f string) bool { return f == Finalizer })
		return c.merge(n, "", kube.Merge{If: n.Version, Metadata: map[string]any{"finalizers": slices.Concat([]string{}, rest)}},
			"remove the finalizer "+Finalizer+"; nothing of the network is left", func() { n.Finalizers = rest }), true
	case n.gate == Open && !n.deleting && len(n.problems) == 0 && !n.begun():
		return c.setFinalizer(n), true
	case n.lacksEndpoint():
		return c.setEndpoint(n), true
	case c.contract == "":
		return w, false
	}
	want := c.wanted(n, now)
	if want.isIn(n.status, c.contract) {
		return w, false
	}
	if n.run != nil && want.onlyProgress(n.status) {
		if at := n.told.Add(tellTime); now.Before(at) {
			c.steps.Set(key, at)
			return w, false
		}
	}
	n.told = now
	return c.merge(n, "status", kube.Merge{If: n.Version, Status: want.patch(c.contract, n.status)}, "set the status: "+want.summary(), func() {}), true
}

// gone reports whether a reading found nothing of the network.
func (n *network) gone() bool {
	return n.works() && n.seen != nil && n.seen.err == nil && n.seen.job.end && n.seen.gone && n.run == nil && n.flying == 0 && !n.reading
}

// begun reports whether the object says whose the network is, and keeps it. No call is made
// before.
func (n *network) begun() bool {
	_, has, _ := n.recorded()
	return has && n.finalized()
}

// lacksEndpoint reports whether the address of the API servers is to be handed on.
func (n *network) lacksEndpoint() bool {
	return n.gate == Open && !n.deleting && n.seen != nil && n.seen.err == nil && n.seen.facts.endpoint.Valid() && n.endpoint == (capi.Endpoint{})
}

// setFinalizer returns the write of the finalizer and of the network's identity.
func (c *Controller) setFinalizer(n *network) controller.Write {
	all := n.Finalizers
	if !n.finalized() {
		all = append(slices.Clone(all), Finalizer)
	}
	annotations := maps.Clone(n.Annotations)
	if annotations == nil {
		annotations = make(map[string]string)
	}
	annotations[NetworkAnnotation] = n.job.identity.String()
	m := kube.Merge{If: n.Version, Metadata: map[string]any{"finalizers": all, "annotations": map[string]string{NetworkAnnotation: annotations[NetworkAnnotation]}}}
	return c.merge(n, "", m, "add the finalizer "+Finalizer+" and the annotation "+NetworkAnnotation+"="+annotations[NetworkAnnotation], func() {
		n.Finalizers, n.Annotations = all, annotations
	})
}

// setEndpoint returns the write of the API servers' address.
func (c *Controller) setEndpoint(n *network) controller.Write {
	e := n.seen.facts.endpoint
	m := kube.Merge{If: n.Version, Spec: map[string]any{"controlPlaneEndpoint": e}}
	return c.merge(n, "", m, fmt.Sprintf("set controlPlaneEndpoint %s:%d", e.Host, e.Port), func() { n.endpoint = e })
}

// answered is the answer to a write of an AWSCluster, and what applies it.
type answered struct {
	version kube.Version
	made    func()
	// same is set if the write changed nothing.
	same bool
}

// merge returns a write of an AWSCluster. made applies it to what is known.
func (c *Controller) merge(n *network, part string, m kube.Merge, summary string, made func()) controller.Write {
	n.writing = true
	uid, path := n.UID, n.path()
	if part != "" {
		path = n.path(part)
	}
	return controller.Write{
		Controller: Name, Object: n.ref(), Verb: controller.Patch, Summary: summary,
		Do: func(ctx context.Context) error {
			v, err := c.options.Client.Merge(ctx, path, m)
			if err == nil {
				c.answers.Store(uid, answered{v, made, v.ResourceVersion == m.If.ResourceVersion})
			}
			return err
		},
	}
}

// Done implements controller.Controller.
func (c *Controller) Done(w controller.Write, err error) {
	if w.Cloud {
		if err != controller.ErrNotMade {
			c.called(w, err)
		}
		return
	}
	n, now := c.networks[w.Object.Namespace+"/"+w.Object.Name], time.Now()
	what, _ := c.answers.LoadAndDelete(w.Object.UID)
	if n == nil || n.UID != w.Object.UID {
		return
	}
	n.writing = false
	switch {
	case err == controller.ErrNotMade:
		return
	case err == nil:
		a := what.(answered)
		if n.retry = (time.Time{}); !a.same {
			n.fails = 0
		}
		shown := true // by the watch, which may be earlier than the answer
		if revision := kube.Revision(a.version.ResourceVersion); revision > n.revision {
			shown, n.written, n.Version, n.revision = false, c.lists, a.version, revision
		}
		a.made()
		c.judge(n, now)
		switch {
		case a.same:
			n.fails++
			n.retry = now.Add(backoff.After(n.fails))
			c.warn(n, "NotKept", "the API server did not keep what was written ("+w.Summary+"); compare the CustomResourceDefinition with the contract in its labels")
		case strings.HasPrefix(w.Summary, "set the status") && !shown:
			n.retry = now.Add(shownLimit) // the watch shows what the server kept of it
		}
	case kube.Moved(err):
		n.retry = now.Add(shownLimit)
	default:
		n.fails++
		n.retry = now.Add(controller.Backoff(backoff, n.fails, err))
	}
	c.steps.Advance(n.Key(), now)
}
