package logtest

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

// TestCaptureHasLinesByVerbosity checks which lines a captured log contains for each
// verbosity.
func TestCaptureHasLinesByVerbosity(t *testing.T) {
	log := Capture(t, 1)
	klog.InfoS("It broke", "key", "a")
	klog.InfoS("It broke", "key", "b")
	klog.V(1).InfoS("It creaks")
	klog.V(2).InfoS("It hums")
	if a, b, all := log.Count("It broke", `key="b"`), log.Count("broke"), log.Count(); a != 1 || b != 2 || all != 3 {
		t.Errorf("%d, %d, %d:\n%s", a, b, all, log)
	}
	if got := log.Take(); !slices.Equal(got, []string{`"It broke" key="a"`, `"It broke" key="b"`, `"It creaks"`}) || log.String() != "" {
		t.Errorf("took %q and left %q", got, log)
	}
	t.Run("another", func(t *testing.T) {
		other := Capture(t, 0)
		klog.ErrorS(nil, "It broke")
		klog.V(1).InfoS("It creaks")
		if n := other.Count(); n != 1 {
			t.Errorf("%d lines:\n%s", n, other)
		}
	})
}

// TestLogIsLimited checks that a Log that no test takes keeps only its end.
func TestLogIsLimited(t *testing.T) {
	var log Log
	for range 1000 {
		if _, err := log.Write([]byte("x] " + strings.Repeat("y", 1<<16) + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = log.Write([]byte("x] end\n"))
	text := log.String()
	if len(text) > most+1<<17 || !strings.HasSuffix(text, "x] end\n") {
		t.Errorf("%d bytes", len(text))
	}
}
