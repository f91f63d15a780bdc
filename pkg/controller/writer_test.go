package controller

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/retry"
)

// TestWritesThatFailTogetherCountOnce: a server that is away for a moment, in which all writes
// in flight fail, delays no write longer than one failure does.
func TestWritesThatFailTogetherCountOnce(t *testing.T) {
	c := newFake("a", 3*mostWrites)
	var tries atomic.Int32
	c.do = func(context.Context, string) error {
		if tries.Add(1) <= mostWrites {
			return errors.New("connection refused")
		}
		return nil
	}
	run(t, Options{}, func(l *lab) {
		l.begin(election.Term{})
		l.pass(backoff.First)
		if n := l.wrote(c); n != 3*mostWrites {
			t.Errorf("wrote %d of %d", n, 3*mostWrites)
		}
	}, c)
}

func TestBackoffIsShortWhileTheServerFails(t *testing.T) {
	own := retry.Backoff{First: time.Second, Last: time.Hour}
	for name, c := range map[string]struct {
		err  error
		last time.Duration
	}{
		"no answer":     {errors.New("connection reset"), backoff.Last},
		"overloaded":    {&kube.Error{Code: http.StatusTooManyRequests}, backoff.Last},
		"server error":  {&kube.Error{Code: http.StatusInternalServerError}, backoff.Last},
		"unavailable":   {&kube.Error{Code: http.StatusServiceUnavailable}, backoff.Last},
		"forbidden":     {&kube.Error{Code: http.StatusForbidden}, own.Last},
		"invalid":       {&kube.Error{Code: http.StatusUnprocessableEntity}, own.Last},
		"already there": {&kube.Error{Code: http.StatusConflict}, own.Last},
	} {
		if d := Backoff(own, 1, c.err); d < own.First/2 || d > own.First {
			t.Errorf("%s: %s after one failure", name, d)
		}
		if d := Backoff(own, 100, c.err); d < c.last/2 || d > c.last {
			t.Errorf("%s: %s after many failures, at most %s", name, d, c.last)
		}
	}
}
