package etcdserver

import (
	"errors"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tulle-net/tulle/pkg/test/etcdtest"
	"github.com/tulle-net/tulle/pkg/test/logtest"
)

// A server that does well says nothing.
func TestQuiet(t *testing.T) {
	out := logtest.Capture(t, 0)
	s := start(t, Options{Dir: t.TempDir(), Listen: "http://127.0.0.1:0"})
	c := etcdtest.Dial(t, s.Endpoint())
	if _, err := c.Put(t.Context(), "x", "y"); err != nil {
		t.Error(err)
	}
	<-c.Watch(t.Context(), "x", clientv3.WithCreatedNotify())
	s.Stop()
	if out.String() != "" {
		t.Errorf("it said:\n%s", out)
	}
}

// TestLog checks which of etcd's messages each verbosity logs.
func TestLog(t *testing.T) {
	for verbosity, want := range map[int][]string{
		0: {`"Etcd reported an error" message="it broke" address="x" error="why"`, `"Etcd reported an error" message="it broke too"`},
		1: {`"Etcd reported an error" message="it broke" address="x" error="why"`, `"Etcd reported a warning" message="it creaks" took="1s"`, `"Etcd reported an error" message="it broke too"`},
	} {
		out := logtest.Capture(t, verbosity)
		l := newLife()
		log := newLogger(l)
		log.Error("before it runs")
		l.begin()
		for range 3 {
			log.With(zap.String("address", "x")).Error("it broke", zap.Error(errors.New("why")), zap.String("request", "secret"))
			log.Warn("it creaks", zap.String("took", "1s"))
		}
		log.Error("it broke too")
		log.Info("all is well")
		l.end()
		log.Error("after it ran")
		if got := out.Take(); !slices.Equal(got, want) {
			t.Errorf("-v %d: %q\nwant %q", verbosity, got, want)
		}
	}
}

func TestPanicAfterStart(t *testing.T) {
	l := newLife()
	l.begin()
	defer func() {
		if p := recover(); p != "etcd: it broke: why" {
			t.Errorf("panic with %v", p)
		}
	}()
	newLogger(l).Panic("it broke", zap.Error(errors.New("why")))
}
