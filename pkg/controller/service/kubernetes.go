package service

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
)

// shownLimit is how long a write waits for the watch to show that the Service has changed.
const shownLimit = time.Second

// Plan implements controller.Controller: the finalizers and the statuses of Services.
func (c *Controller) Plan(now time.Time, n int) (writes []controller.Write, again time.Time) {
	if c.options.DryRun { // a preview shows all, also what is not due yet
		for _, key := range c.keys() {
			if w, ok := c.stepOf(c.services[key], now); ok {
				writes = append(writes, w)
			}
		}
		return writes, time.Time{}
	}
	for len(writes) < n {
		key, due := c.steps.Pop(now)
		if !due {
			break
		}
		if s := c.services[key]; s != nil {
			if w, ok := c.stepOf(s, now); ok {
				writes = append(writes, w)
			}
		}
	}
	return writes, c.steps.Next()
}

// stepOf returns the write that a Service needs now, if there is one.
func (c *Controller) stepOf(s *service, now time.Time) (w controller.Write, ok bool) {
	switch {
	case s.writing:
		return w, false
	case now.Before(s.retry):
		c.steps.Set(s.Key(), s.retry)
		return w, false
	case s.wanted() && !s.finalized():
		return c.setFinalizers(s, append(slices.Clip(s.finalizers), Finalizer), "add the finalizer "+Finalizer), true
	case s.wanted() && s.host != "" && !s.hasHost():
		return c.setStatus(s), true
	case s.leaving() && s.gone && s.flying == 0 && c.mayRelease(s):
		rest := slices.DeleteFunc(slices.Clone(s.finalizers), func(f string) bool { return f == Finalizer })
		return c.setFinalizers(s, rest, "remove the finalizer "+Finalizer), true
	}
	return w, false
}

// hasHost reports whether the status has the balancer's host name, and no other address.
func (s *service) hasHost() bool { return len(s.Hosts) == 1 && s.Hosts[0] == s.host && !s.addressed }

// mayRelease reports whether the finalizer is ours to remove. One of a Service that is no
// longer of the type LoadBalancer may be that of another controller.
func (c *Controller) mayRelease(s *service) bool {
	return s.Balances || s.known || c.options.Rules.Default || s.worked
}

// setFinalizers returns the write of a Service's finalizers.
func (c *Controller) setFinalizers(s *service, all []string, summary string) controller.Write {
	return c.merge(s, "", kube.Merge{If: s.version, Metadata: map[string]any{"finalizers": slices.Concat([]string{}, all)}}, summary, func() { s.finalizers = all })
}

// setStatus returns the write of a Service's host name.
func (c *Controller) setStatus(s *service) controller.Write {
	host := s.host
	status := map[string]any{"loadBalancer": map[string]any{"ingress": []map[string]string{{"hostname": host}}}}
	w := c.merge(s, "status", kube.Merge{If: kube.Version{UID: s.version.UID}, Status: status}, "set the host name "+host, func() { s.Hosts, s.addressed = []string{host}, false })
	w.Before, w.After = strings.Join(s.Hosts, ", "), host
	return w
}

// merge returns a write of a Service. made applies it to what is known.
func (c *Controller) merge(s *service, part string, m kube.Merge, summary string, made func()) controller.Write {
	s.writing = true
	uid := s.UID
	path := []string{s.Namespace, "services", s.Name}
	if part != "" {
		path = append(path, part)
	}
	return controller.Write{
		Controller: Name, Object: s.ref(), Verb: controller.Patch, Summary: summary,
		Do: func(ctx context.Context) error {
			v, err := c.options.Client.Merge(ctx, kube.Path("api/v1/namespaces", path...), m)
			if err == nil {
				c.answers.Store(uid, answered{v, made})
			}
			return err
		},
	}
}

// answered is the answer to a write of a Service, and what applies it.
type answered struct {
	version kube.Version
	made    func()
}

// Done implements controller.Controller.
func (c *Controller) Done(w controller.Write, err error) {
	if w.Cloud {
		if x, flies := c.changes[w.Object]; flies {
			delete(c.changes, w.Object)
			c.changed(x, err)
		}
		return
	}
	now := time.Now()
	answer, has := c.answers.LoadAndDelete(w.Object.UID)
	s := c.services[w.Object.Namespace+"/"+w.Object.Name]
	if s == nil || s.UID != w.Object.UID {
		return
	}
	s.writing = false
	switch {
	case err == controller.ErrNotMade:
	case err == nil:
		s.fails = 0
		if a, is := answer.(answered); has && is {
			// The watch may have shown a later state already, which has the write.
			if revision, _ := strconv.ParseInt(a.version.ResourceVersion, 10, 64); revision == 0 || revision > s.revision {
				a.made()
				s.version.ResourceVersion, s.revision, s.written = a.version.ResourceVersion, revision, c.lists
			}
		}
		if s.gone && !s.finalized() {
			c.event(s, false, "DeletedLoadBalancer", "Deleted load balancer")
			s.worked, s.began = false, time.Time{}
		}
	case kube.Moved(err):
		s.retry = now.Add(shownLimit)
	default:
		s.fails++
		s.retry = now.Add(controller.Backoff(backoff, s.fails, err))
		if kube.OutcomeOf(err) == kube.Refused {
			c.event(s, true, failedReason, "Error syncing load balancer: cannot "+w.Summary+": "+err.Error())
		}
	}
	c.due(s.Key(), now)
}

// keys returns the names of all Services, in order.
func (c *Controller) keys() []string { return slices.Sorted(maps.Keys(c.services)) }
