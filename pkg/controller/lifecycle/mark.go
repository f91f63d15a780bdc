package lifecycle

import (
	"fmt"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
)

// Mark is the annotation of a Node that a kubelet has used after the Node's instance was gone.
// Its value is the Node's providerID; another value has no effect. It tells later leaders what
// an earlier one has seen.
const Mark = "tulle.net/outlived-instance"

// isHeld reports whether a Node must not be deleted because another machine may use it.
func (s *subject) isHeld() bool { return s.outlived || s.marked }

// held says why a Node is held, with the fix.
func (s *subject) held() string {
	seen := ""
	if !s.outlived {
		seen = ", as its annotation " + Mark + " says"
	}
	return fmt.Sprintf("a kubelet worked under this Node after its instance was gone%s, so providerID %q belongs to another machine; drain and delete the Node, and restart its kubelet", seen, s.id)
}

// showsAlive records an answer in which the instance is not gone. If answers show the instance
// for long, the Node was held wrongly, so showsAlive releases it. Two answers in a row prove that a
// machine with another ID is the instance: some clouds re-create an instance under its old ID. The
// first one may have begun before the machine did.
func (s *subject) showsAlive(state cloud.State, at time.Time, times Times) {
	switch {
	case !isAlive(state), !s.isHeld() && !s.moved, s.moved && state != cloud.Running:
		s.back, s.refuted = time.Time{}, false
	case s.back.IsZero():
		s.back = at
	case at.Sub(s.back) >= times.Enough:
		s.outlived, s.moved, s.refuted = false, false, true
	case at.Sub(s.back) >= times.Pace:
		s.moved = false
	}
}

// mark returns the write that adds or removes a Node's Mark, if it needs one. It removes the
// Mark only after answers have shown the instance for Times.Enough.
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
	return c.patch(s, summary, kube.Merge{
		Kind: kube.StrategicMergePatch, If: kube.Version{UID: s.uid}, Metadata: map[string]any{"annotations": map[string]any{Mark: value}},
	}), true
}
