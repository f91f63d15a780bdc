package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/subnet"
	"github.com/tulle-net/tulle/subnet/kube"
)

const (
	// unready is how long a network may fail before its Node reports that. Such a Node
	// gets no more pods.
	unready = 15 * time.Second
	// pollInterval is how often we poll what sends no change notification.
	pollInterval = 5 * time.Second
	// conditionPause is the shortest time between two restores of a condition that
	// another program changes.
	conditionPause = 30 * time.Second
	// eventLimit is the time limit of the API server for an event. An event is for
	// people, and the log has the same text.
	eventLimit = 10 * time.Second
	// longestMessage is the size limit of an event's message.
	longestMessage = 1000
)

// cluster receives the reports about a Node.
type cluster interface {
	SetNetworkUnavailable(ctx context.Context, c kube.Condition) error
	Event(ctx context.Context, warning bool, why, message string) error
}

// nodeReporter publishes the network's state in a Node's condition and events.
type nodeReporter struct {
	agent interface {
		outlook(ctx context.Context) outlook
	}
	cluster    cluster
	conditions bool // and not events alone
}

// run reports until ctx ends, whenever changed signals, and at intervals.
func (t nodeReporter) run(ctx context.Context, changed <-chan struct{}) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var running sync.WaitGroup
	defer running.Wait()
	event := func(warning bool, why, message string) {
		running.Go(func() { t.event(ctx, warning, why, message) })
	}
	var turn sync.Mutex // held by the goroutine that sets the condition
	stop := func() {}
	defer func() { stop() }()
	var said kube.Condition // the last condition; zero before the first
	var written time.Time   // when a failure was last written
	var subnets subnet.Pair[netip.Prefix]
	for worked := time.Now(); ; {
		s := t.agent.outlook(ctx)
		if now := s.own.Subnets; now != subnets && s.own != (subnet.Lease{}) {
			if subnets != (subnet.Pair[netip.Prefix]{}) {
				event(true, "SubnetChanged", fmt.Sprintf("this node's subnet changed from %s to %s; containers with addresses of the old one are cut off until they are re-created",
					subnet.FormatKey(subnets), subnet.FormatKey(now)))
			}
			subnets = now
		}
		want := said
		switch {
		case s.started: // also with a bridge of another subnet, which the next pod may correct
			worked, want = time.Now(), kube.Up
		case time.Since(worked) >= unready:
			want = kube.Condition{Unavailable: true, Reason: "TulleNotReady", Message: said.Message}
			if !said.Unavailable || time.Since(written) >= conditionPause { // the text changes more often than the state
				written, want.Message = time.Now(), truncate(s.text)
			}
		}
		switch {
		case want.Unavailable && !said.Unavailable:
			event(true, "NetworkNotReady", want.Message)
		case said.Unavailable && !want.Unavailable:
			event(false, "NetworkReady", "the network works on this node")
		}
		if want != said && t.conditions {
			stop()
			setting, cancel := context.WithCancel(ctx)
			stop = cancel
			running.Go(func() {
				turn.Lock()
				defer turn.Unlock()
				t.set(setting, want)
			})
		}
		said = want
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-tick.C:
		}
	}
}

// set keeps the Node's condition at c until ctx ends, also when other programs change
// it.
func (t nodeReporter) set(ctx context.Context, c kube.Condition) {
	tick := time.NewTicker(conditionPause)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := t.cluster.SetNetworkUnavailable(ctx, c); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Failed to set the Node's NetworkUnavailable condition; retrying")
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// event sends an event, if the API server accepts it.
func (t nodeReporter) event(ctx context.Context, warning bool, why, message string) {
	ctx, cancel := context.WithTimeout(ctx, eventLimit)
	defer cancel()
	if err := t.cluster.Event(ctx, warning, why, truncate(message)); err != nil {
		klog.V(1).ErrorS(err, "Failed to write an event of the Node", "reason", why)
	}
}

// truncate shortens text to the size limit of an event.
func truncate(text string) string {
	if len(text) > longestMessage {
		text = strings.ToValidUTF8(text[:longestMessage], "") + "…"
	}
	return text
}
