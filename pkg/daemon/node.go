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
	// unready is how long a network may not work before its Node says so: a Node
	// that does gets no more pods.
	unready = 15 * time.Second
	// look is how often that is looked at which nobody tells of.
	look = 5 * time.Second
	// again is how often at most a condition is put right that others change.
	again = 30 * time.Second
	// eventLimit is how long an API server may take for an event. It is for people,
	// and the log has it too.
	eventLimit = 10 * time.Second
	// longestMessage is what fits an event.
	longestMessage = 1000
)

// cluster is what is told of a Node.
type cluster interface {
	SetNetworkUnavailable(ctx context.Context, c kube.Condition) error
	Event(ctx context.Context, warning bool, why, message string) error
}

// nodeTeller has a Node's condition and events say how its network is.
type nodeTeller struct {
	agent interface {
		outlook(ctx context.Context) outlook
	}
	cluster    cluster
	conditions bool // and not events alone
}

// run tells until ctx ends, whenever changed says that there may be news, and now
// and then besides.
func (t nodeTeller) run(ctx context.Context, changed <-chan struct{}) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	var running sync.WaitGroup
	defer running.Wait()
	event := func(warning bool, why, message string) {
		running.Go(func() { t.event(ctx, warning, why, message) })
	}
	var turn sync.Mutex // of who sets the condition
	stop := func() {}
	defer func() { stop() }()
	var said kube.Condition // zero while nothing was
	var told time.Time      // when that it does not work was last put into words
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
		case s.started: // a bridge that does not fit the next pod may heal, and is to come
			worked, want = time.Now(), kube.Up
		case time.Since(worked) >= unready:
			want = kube.Condition{Unavailable: true, Reason: "TulleNotReady", Message: said.Message}
			if !said.Unavailable || time.Since(told) >= again { // the words change more often than the matter
				told, want.Message = time.Now(), short(s.text)
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

// set has the Node say c, whoever says otherwise, until ctx ends.
func (t nodeTeller) set(ctx context.Context, c kube.Condition) {
	tick := time.NewTicker(again)
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

// event tells people of something, if the API server takes it.
func (t nodeTeller) event(ctx context.Context, warning bool, why, message string) {
	ctx, cancel := context.WithTimeout(ctx, eventLimit)
	defer cancel()
	if err := t.cluster.Event(ctx, warning, why, short(message)); err != nil {
		klog.V(1).ErrorS(err, "Failed to write an event of the Node", "reason", why)
	}
}

// short is text of a length for an event.
func short(text string) string {
	if len(text) > longestMessage {
		text = strings.ToValidUTF8(text[:longestMessage], "") + "…"
	}
	return text
}
