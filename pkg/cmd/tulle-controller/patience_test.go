package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/controller/service"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/pkg/test/logtest"
)

// putServices writes Services with a class and a port.
func (c cluster) putServices(n int) {
	c.Do(func() {
		for i := range n {
			name := fmt.Sprintf("web-%03d", i)
			c.ChangeObject("ADDED", "api/v1/namespaces/default/services/"+name, map[string]any{
				"apiVersion": "v1", "kind": "Service",
				"metadata": map[string]any{"name": name, "namespace": "default", "uid": fmt.Sprintf("%08x-4b5a-6978-8796-a5b4c3d2e1f0", i)},
				"spec": map[string]any{
					"type": "LoadBalancer", "loadBalancerClass": "tulle.net/nlb",
					"ports": []any{map[string]any{"name": "http", "protocol": "TCP", "port": int64(80), "nodePort": int64(30000 + i)}},
				},
			})
		}
	})
}

// balance gives n Services their load balancers, with a program that has no limits, and ends
// that program.
func (c cluster) balance(f *awstest.Server, n int) {
	c.t.Helper()
	f.Set(func(s *awstest.Settings) { s.Balancers, s.GroupsPerVPC, s.RulesPerGroup = 1000, 5000, 1000 })
	c.putServices(n)
	p, err := settingsOf(c.t, append(c.serviceFlags(), "--aws-api-share=1000")...).connect()
	if err != nil {
		c.t.Fatal(err)
	}
	r := c.run(p)
	kerneltest.Eventually(c.t, time.Duration(n/100+1)*patience, func() error {
		now := r.read(context.Background())
		if now.services == nil {
			return errors.New("the loop does not answer")
		}
		if counts := now.services.Counts; counts[service.Balanced] != n {
			return fmt.Errorf("of %d Services, %v", n, counts)
		}
		return nil
	})
	r.stop()
}

// setPace makes commands give up sooner, until the test ends.
func setPace(t *testing.T, to pace) {
	usual := readPace
	readPace = to
	t.Cleanup(func() { readPace = usual })
}

// TestReadingTakesAsLongAsAnswersCome checks a reading's limits: it ends a minute after the
// last answer, or after an hour, and not before.
func TestReadingTakesAsLongAsAnswersCome(t *testing.T) {
	for name, c := range map[string]struct {
		every, until time.Duration // when answers come
		takes        time.Duration
		want         string
	}{
		"no answer":         {time.Hour, 0, time.Minute, "no answer for 1m0s"},
		"slow answers":      {50 * time.Second, 2 * time.Hour, time.Hour, "not all was read within 1h0m0s"},
		"answers that stop": {50 * time.Second, 20 * time.Minute, 21 * time.Minute, "no answer for 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				told := logtest.Capture(t, 0)
				began := time.Now()
				read := func(context.Context) (is progress) {
					is.answers = int(min(time.Since(began), c.until) / c.every)
					is.details = service.Details{Read: is.answers, All: 1000}
					return is
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				readPace.watch(ctx, read, cancel)
				if took, err := time.Since(began), context.Cause(ctx); took < c.takes-c.every || took > c.takes+time.Second || err == nil || err.Error() != c.want {
					t.Errorf("ended after %s with %v, want %s and %s", took, err, c.takes, c.want)
				}
				if n := told.Count("Reading load balancers and target groups", "of=1000"); n < int(time.Since(began)/readPace.tell)-1 {
					t.Errorf("%d reports of progress within %s", n, time.Since(began))
				}
			})
		})
	}
}

// A plan reports how far it has read the details of load balancers. The answers about them
// take 2.5 s and more together.
func TestPlanReportsItsProgress(t *testing.T) {
	const many = 10
	c, f, _ := newBalanced(t, 1)
	c.balance(f, many)
	f.Set(func(s *awstest.Settings) {
		s.Latency = map[string]time.Duration{"DescribeTargetHealth": 250 * time.Millisecond, "DescribeTargetGroupAttributes": 250 * time.Millisecond, "DescribeListeners": 250 * time.Millisecond}
	})
	setPace(t, pace{answer: time.Minute, all: time.Hour, tell: 100 * time.Millisecond})
	told := logtest.Capture(t, 0)
	var out bytes.Buffer
	err := settingsOf(t, append(c.serviceFlags(), "--aws-api-share=1000", "plan")...).plan(&out)
	if err != nil || !strings.Contains(out.String(), "nothing to write") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if told.Count("Reading load balancers and target groups", fmt.Sprintf("of=%d", 2*many)) == 0 {
		t.Errorf("no progress in\n%s", told)
	}
}

// A plan ends when no answer comes any more, and in any case after the limit of the whole. It
// says so.
func TestPlanEndsWithoutAnswers(t *testing.T) {
	c, f, _ := newBalanced(t, 1)
	c.putWeb()
	f.Inject(awstest.Fault{Action: "DescribeTargetGroups", Hang: true})
	const soon = 300 * time.Millisecond
	for want, limit := range map[string]pace{
		"no answer for 300ms (":           {answer: soon, all: time.Hour, tell: time.Hour},
		"not all was read within 300ms (": {answer: time.Hour, all: soon, tell: time.Hour},
	} {
		setPace(t, limit)
		var out bytes.Buffer
		if err := settingsOf(t, append(c.serviceFlags(), "plan")...).plan(&out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
