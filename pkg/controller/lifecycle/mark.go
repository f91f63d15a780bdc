package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
)

// Mark is the annotation of a Node under which a kubelet worked after its instance was
// gone. Its value is the Node's providerID; another value has no effect. It keeps what
// one leader has seen for the next one.
const Mark = "tulle.net/outlived-instance"

// isHeld reports whether the Node's machine may be another one than its instance.
func (s *subject) isHeld() bool { return s.outlived || s.marked }

// held returns why a Node is held.
func (s *subject) held() string {
	seen := ""
	if !s.outlived {
		seen = ", as its annotation " + Mark + " says"
	}
	return fmt.Sprintf("a kubelet worked under this Node after its instance was gone%s, so providerID %q belongs to another machine; drain and delete the Node, and restart its kubelet", seen, s.id)
}

// lives records an answer that the instance is not gone. If answers show it for that
// long, the Node was held wrongly.
func (s *subject) lives(state cloud.State, at time.Time, long time.Duration) {
	switch {
	case !isAlive(state) || !s.isHeld():
		s.back, s.refuted = time.Time{}, false
	case s.back.IsZero():
		s.back = at
	case at.Sub(s.back) >= long:
		s.outlived, s.refuted = false, true
	}
}

// mark returns the write that adds or removes a Node's Mark, if it needs one. The Mark of
// a Node goes only when answers have shown its instance for a while.
func (c *Controller) mark(s *subject, now time.Time) (w controller.Write, ok bool) {
	if s == nil || s.deleting || s.id == "" || !c.isFree(s, now) {
		return w, false
	}
	var value any
	var summary string
	switch {
	case s.outlived && !s.marked:
		value, summary = s.id, "add the annotation "+Mark+": a kubelet worked under the Node after its instance was gone"
	case s.marked && !s.outlived && s.refuted:
		summary = "remove the annotation " + Mark + ": its instance is " + string(s.state)
	default:
		return w, false
	}
	m := kube.Merge{Kind: kube.StrategicMergePatch, If: kube.Version{UID: s.uid}, Metadata: map[string]any{"annotations": map[string]any{Mark: value}}}
	client, path := c.options.Client, kube.Path(kube.Nodes, s.name)
	c.flying[s.name] = flight{uid: s.uid}
	return controller.Write{
		Controller: Name, Object: s.ref(), Verb: controller.Patch, Summary: summary,
		Do: func(ctx context.Context) error {
			_, err := client.Merge(ctx, path, m)
			return err
		},
	}, true
}
