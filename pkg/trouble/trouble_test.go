package trouble

import (
	"errors"
	"maps"
	"testing"
)

func TestLogLogsEachKindOfFailureOnce(t *testing.T) {
	l := Log{Explain: func(err error) (kind, words string) { return "kind", "because of " + err.Error() }}
	check := func(step string, want map[string]string, last string) {
		t.Helper()
		now, was := l.List()
		if !maps.Equal(now, want) || was.Why != last || (last == "") != was.At.IsZero() {
			t.Errorf("%s: %v, %+v", step, now, was)
		}
	}
	check("nothing", nil, "")
	l.Over("A")
	l.Forget("A")
	check("still nothing", nil, "")
	l.Failed("A", errors.New("one"))
	l.Failed("B", errors.New("two"))
	l.Failed("A", errors.New("three"))
	check("two", map[string]string{"A": "because of three", "B": "because of two"}, "because of three")
	if !l.logged["A"]["kind"] || len(l.logged) != 2 {
		t.Errorf("logged %v", l.logged)
	}
	l.Over("A")
	check("one", map[string]string{"B": "because of two"}, "because of three")
	l.Forget("B")
	check("none", nil, "because of three")
	if len(l.logged) != 0 {
		t.Errorf("still logged %v", l.logged)
	}
}
