package status

import (
	"net"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"
)

// jumped returns t as read when the clock of the day showed something else by d; the
// monotonic reading stays.
func jumped(t time.Time, d time.Duration) time.Time {
	// A Time with a monotonic reading has its seconds since 1885 in bits 30 to 62.
	wall := (*uint64)(unsafe.Pointer(&t))
	*wall += uint64(d/time.Second) << 30
	return t
}

// TestJumped checks that a jump changes only the wall clock's part of a time.
func TestJumped(t *testing.T) {
	a := time.Now()
	if b := jumped(a, -time.Hour); b.Sub(a) != 0 || b.Round(0).Sub(a.Round(0)) != -time.Hour {
		t.Fatalf("%v is not an hour before %v", b, a)
	}
}

func TestAgeSurvivesClockJump(t *testing.T) {
	now := time.Now()
	for _, by := range []time.Duration{0, 24 * time.Hour, -24 * time.Hour, 10 * 365 * 24 * time.Hour} {
		got := OnClock(now, jumped(now.Add(-time.Minute), -by)) // read before the jump
		if age := now.Round(0).Sub(got); age != time.Minute || strings.Contains(got.String(), "m=") {
			t.Errorf("after a jump by %v: %v, which is %v ago", by, got, age)
		}
	}
	file := now.Round(0).Add(-time.Hour)
	if got := OnClock(now, file); got != file {
		t.Errorf("a time from a file: %v, want %v", got, file)
	}
	if got := OnClock(now, time.Time{}); !got.IsZero() {
		t.Errorf("no time: %v", got)
	}
	if a, b := OnClock(now, now.Add(-time.Hour)), OnClock(now.Add(time.Second), now.Add(-time.Hour)); a != b {
		t.Errorf("without a jump: %v, then %v", a, b)
	}
}

// fill sets all times in v to at, and gives every pointer and slice on the way one
// element.
func fill(v reflect.Value, at time.Time) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(at))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), at)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), at)
	case v.Kind() == reflect.Struct && strings.HasPrefix(v.Type().PkgPath(), "github.com/tulle-net/tulle"):
		for i := range v.NumField() {
			fill(v.Field(i), at)
		}
	}
}

// times returns all times in v, by path.
func times(v reflect.Value, path string, all map[string]time.Time) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		all[path] = v.Interface().(time.Time)
	case v.Kind() == reflect.Pointer:
		times(v.Elem(), path, all)
	case v.Kind() == reflect.Slice:
		times(v.Index(0), path, all)
	case v.Kind() == reflect.Struct && strings.HasPrefix(v.Type().PkgPath(), "github.com/tulle-net/tulle"):
		for i := range v.NumField() {
			times(v.Field(i), path+"."+v.Type().Field(i).Name, all)
		}
	}
}

func TestAllTimesArePutOnTheClock(t *testing.T) {
	for _, what := range []interface{ OnClock(time.Time) }{&Report{}, &Peer{}, &PeerProbes{}} {
		now := time.Now()
		fill(reflect.ValueOf(what).Elem(), jumped(now.Add(-time.Minute), -24*time.Hour))
		what.OnClock(now)
		all := make(map[string]time.Time)
		times(reflect.ValueOf(what).Elem(), reflect.TypeOf(what).String(), all)
		if len(all) == 0 {
			t.Errorf("%T has no times", what)
		}
		for path, got := range all {
			if age := now.Round(0).Sub(got); age != time.Minute {
				t.Errorf("%s is %v old", path, age)
			}
		}
	}
}

// The daemon's clock may not be the client's.
func TestClientKnowsDaemonsClock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", now.Format(http.TimeFormat))
		_, _ = w.Write([]byte("{}"))
	})}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) })
	defer running.Wait()
	defer server.Close()
	c := Dial(path, "")
	if before := time.Since(c.Now()); before > time.Minute {
		t.Errorf("before the first answer: %v ago", before)
	}
	if _, err := c.Report(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.Now(); !got.Equal(now) {
		t.Errorf("%v, want %v", got, now)
	}
}
