package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
)

// newEvent returns an event as the cluster stores it.
func newEvent(ev controller.Event, now time.Time) *kube.Event {
	at, kind := now.UTC().Format(time.RFC3339), kube.Normal
	if ev.Warning {
		kind = kube.Warning
	}
	o := ev.Object
	e := &kube.Event{
		InvolvedObject: kube.Reference{APIVersion: cmp.Or(o.APIVersion, "v1"), Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID},
		Reason:         ev.Reason, Message: ev.Message, Type: kind, Count: 1, FirstTimestamp: at, LastTimestamp: at,
		Source: kube.EventSource{Component: "tulle-controller"},
	}
	e.Metadata.Name = fmt.Sprintf("%s.%x", o.Name, now.UnixNano())
	return e
}
