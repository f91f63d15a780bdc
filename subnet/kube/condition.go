package kube

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tulle-net/tulle/pkg/kube"
)

// Condition is a Node's condition NetworkUnavailable.
type Condition struct {
	Unavailable     bool
	Reason, Message string
}

// Up is the Condition of a node with a working network, in flannel's words.
var Up = Condition{Reason: "FlannelIsUp", Message: "Flannel is running on this node"}

func conditionOf(c kube.NodeCondition) (Condition, bool) {
	return Condition{string(c.Status) != "False", string(c.Reason), string(c.Message)}, len(c.Status) > 0
}

// conditionValue is the condition in a Node's status.
type conditionValue struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason"`
	Message            string `json:"message"`
	LastHeartbeatTime  string `json:"lastHeartbeatTime"`
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`
}

// SetNetworkUnavailable sets the Node's condition to c. It retries until it succeeds
// or ctx ends, and sends no request if the condition is already c.
func (s *Store) SetNetworkUnavailable(ctx context.Context, c Condition) error {
	s.begin()
	for failures := 1; ; {
		e, _, changed := s.book.ownNode()
		if e == nil {
			if err := wait(ctx, changed); err != nil {
				return err
			}
			continue
		}
		writing := "setting the condition of Node " + e.name
		if e.own.known && e.own.network == c {
			s.trouble.Over(writing) // the change that failed before is no longer wanted
			return nil
		}
		now := time.Now().UTC().Format(time.RFC3339)
		value := conditionValue{kube.NetworkUnavailable, "False", c.Reason, c.Message, now, ""}
		if c.Unavailable {
			value.Status = "True"
		}
		if !e.own.known || e.own.network.Unavailable != c.Unavailable {
			value.LastTransitionTime = now
		}
		change, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": e.uid}, "status": map[string]any{"conditions": []conditionValue{value}},
		})
		if err != nil {
			return err
		}
		err = s.retry(ctx, writing, func(ctx context.Context) error {
			v, err := s.patch(ctx, e.name, kube.StrategicMergePatch, change)
			if kube.Moved(err) {
				return errMoved
			}
			if err == nil {
				s.book.take(itself, v)
			}
			return err
		})
		if err != errMoved {
			return err
		}
		if err := kube.Pause(ctx, failures, nil); err != nil {
			return err
		}
		failures++
	}
}

// Event creates one event for the Node, of type Warning or Normal.
func (s *Store) Event(ctx context.Context, warning bool, why, message string) error {
	s.begin()
	var e *entry
	for e == nil {
		var changed <-chan struct{}
		if e, _, changed = s.book.ownNode(); e == nil {
			if err := wait(ctx, changed); err != nil {
				return err
			}
		}
	}
	kind, now := kube.Normal, time.Now().UTC().Format(time.RFC3339)
	if warning {
		kind = kube.Warning
	}
	// No retry: the log and the status have the same message.
	event := kube.Event{
		// Kubelets set uid to the name too, and tools find a Node's events by it.
		InvolvedObject: kube.Reference{APIVersion: "v1", Kind: "Node", Name: e.name, UID: e.name},
		Reason:         why, Message: message, Type: kind, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: kube.EventSource{Component: s.options.Program, Host: e.name},
	}
	event.Metadata.GenerateName = s.options.Program + "-"
	return kube.Create(ctx, s.client, kube.Events(""), kube.EventFormat, &event)
}
