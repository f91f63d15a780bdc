package embedetcd

import (
	"bytes"
	"errors"
	"flag"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/klog/v2"
)

// capture has klog write into what it returns, until the test ends.
func capture(t *testing.T, verbosity string) *bytes.Buffer {
	t.Helper()
	state := klog.CaptureState()
	t.Cleanup(state.Restore)
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	for name, value := range map[string]string{"logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true", "v": verbosity} {
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	klog.SetOutput(&out)
	return &out
}

// A server that does well says nothing.
func TestQuiet(t *testing.T) {
	out := capture(t, "0")
	s := start(t, Options{Dir: t.TempDir(), Listen: "http://127.0.0.1:0"})
	c := dial(t, s.Endpoint())
	if _, err := c.Put(t.Context(), "x", "y"); err != nil {
		t.Error(err)
	}
	<-c.Watch(t.Context(), "x", clientv3.WithCreatedNotify())
	s.Stop()
	klog.Flush()
	if out.Len() > 0 {
		t.Errorf("it said:\n%s", out)
	}
}

func TestLog(t *testing.T) {
	for verbosity, want := range map[string][]string{
		"0": {`"Etcd fails: it broke" address="x" error="why"`, `"Etcd fails: it broke too"`},
		"1": {`"Etcd fails: it broke" address="x" error="why"`, `"Etcd warns: it creaks" took="1s"`, `"Etcd fails: it broke too"`},
	} {
		out := capture(t, verbosity)
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
		klog.Flush()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != len(want) || strings.Contains(out.String(), "secret") {
			t.Fatalf("-v %s:\n%s", verbosity, out)
		}
		for i := range want {
			if !strings.HasSuffix(lines[i], "] "+want[i]) {
				t.Errorf("-v %s: %s\nwant %s", verbosity, lines[i], want[i])
			}
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
