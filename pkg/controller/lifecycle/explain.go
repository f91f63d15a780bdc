package lifecycle

import (
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
)

// Explain implements controller.Explainer.
func (c *Controller) Explain(name string) []controller.Line {
	s := c.judge.subjects[name]
	if s == nil {
		return nil
	}
	life := controller.Line{What: "life"}
	for _, v := range c.judge.verdicts(time.Now(), 0) {
		if v.name == name {
			life.Text = v.text
			return []controller.Line{life}
		}
	}
	switch {
	case s.deleting:
		life.OK, life.Text = true, "the Node is being deleted"
	case s.ready:
		life.OK, life.Text = true, "ready, so it stays"
		if isGone(s.state) {
			life.OK, life.Text = false, "ready, though its instance is "+string(s.state)+"; the cloud is asked again"
		}
	case s.id == "":
		life.Text = "not ready, and never deleted here: the Node has no providerID"
	case s.problem != "":
		life.Text = "not ready, and never deleted here: " + s.problem
	case s.state == "":
		life.Text = "not ready; the cloud has not been asked yet"
	case s.state.IsShutDown():
		life.Text = "its instance is stopped; the Node has the taint " + Taint + " until it is ready"
	case s.state == cloud.Running:
		life.Text = "not ready, and its instance runs; look at its kubelet"
	default:
		life.Text = "not ready; its instance is " + string(s.state)
	}
	return []controller.Line{life}
}
