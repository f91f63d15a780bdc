package wgkey

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/test/logtest"
)

var noon = time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)

func TestNextStep(t *testing.T) {
	const day = 24 * time.Hour
	old := noon.Add(-200 * day)
	known := Facts{Now: noon, Known: true, Published: true}
	with := func(change func(*Facts)) Facts { f := known; change(&f); return f }
	for name, c := range map[string]struct {
		keys Keys
		f    Facts
		want Step
	}{
		"nothing to do":                    {Keys{Made: old}, known, None},
		"requested":                        {Keys{Made: noon}, with(func(f *Facts) { f.Request = "A" }), Move},
		"served":                           {Keys{Made: noon, Served: "A"}, with(func(f *Facts) { f.Request = "A" }), None},
		"requested again":                  {Keys{Made: noon, Served: "A"}, with(func(f *Facts) { f.Request = "B" }), Move},
		"old":                              {Keys{Made: old}, with(func(f *Facts) { f.MaxAge = 100 * day }), Move},
		"young":                            {Keys{Made: noon.Add(-80 * day)}, with(func(f *Facts) { f.MaxAge = 100 * day }), None},
		"of unknown age":                   {Keys{}, with(func(f *Facts) { f.MaxAge = day }), None},
		"made in the future":               {Keys{Made: noon.Add(day)}, with(func(f *Facts) { f.MaxAge = day }), None},
		"the clock is at its beginning":    {Keys{Made: noon}, with(func(f *Facts) { f.MaxAge, f.Now = day, time.Unix(0, 0) }), None},
		"requested while the store is off": {Keys{}, with(func(f *Facts) { f.Request, f.Published = "A", false }), None},
		"requested before the full list":   {Keys{}, with(func(f *Facts) { f.Request, f.Known = "A", false }), None},

		"move, too early":             {Keys{Step: Move}, with(func(f *Facts) { f.Here, f.Settled = leastStay-1, leastStay-1 }), Move},
		"move, peers on their way":    {Keys{Step: Move}, with(func(f *Facts) { f.Here, f.Settled = time.Minute, settle-1 }), Move},
		"move, all there":             {Keys{Step: Move}, with(func(f *Facts) { f.Here, f.Settled = leastStay, settle }), Publish},
		"move, the store is off":      {Keys{Step: Move}, with(func(f *Facts) { f.Here, f.Settled, f.Published = leastStay, settle, false }), Move},
		"move, the list is not known": {Keys{Step: Move}, with(func(f *Facts) { f.Here, f.Settled, f.Known = leastStay, settle, false }), Move},
		"move, a peer never follows":  {Keys{Step: Move}, with(func(f *Facts) { f.Here = limit }), Publish},
		"move, a request":             {Keys{Step: Move}, with(func(f *Facts) { f.Request = "A" }), Move},

		"publish, the store is off": {Keys{Step: Publish}, with(func(f *Facts) { f.Published = false; f.Here = 2 * limit }), Publish},
		"publish, published":        {Keys{Step: Publish}, known, Return},

		"return, peers on their way":         {Keys{Step: Return}, with(func(f *Facts) { f.Here = time.Minute }), Return},
		"return, all there, store off":       {Keys{Step: Return}, with(func(f *Facts) { f.Here, f.Settled, f.Published = leastStay, settle, false }), None},
		"return, a peer never follows":       {Keys{Step: Return}, with(func(f *Facts) { f.Here = limit }), None},
		"return, the full list is not known": {Keys{Step: Return}, with(func(f *Facts) { f.Here, f.Known = limit, false }), Return},
	} {
		if c.keys.Current.IsZero() {
			c.keys.Current = New()
		}
		got, why := c.keys.Next(c.f)
		if got != c.want || (why == "") != (got == c.keys.Step) {
			t.Errorf("%s: %s because of %q, not %s", name, got, why, c.want)
		}
	}
}

// TestKeysOfOneDayAreReplacedOnManyDays spreads the load of a cluster.
func TestKeysOfOneDayAreReplacedOnManyDays(t *testing.T) {
	const most = 80 * 24 * time.Hour
	days := make(map[int]int)
	for range 1000 {
		k := Keys{Current: New(), Made: noon}
		day := 0
		for !k.Due(noon.Add(time.Duration(day)*24*time.Hour), most) {
			day++
		}
		days[day]++
	}
	if len(days) < 10 {
		t.Errorf("they are replaced on the days %v", days)
	}
	for day, n := range days {
		if day < 70 || day > 80 || n > 200 {
			t.Errorf("%d keys are replaced on day %d", n, day)
		}
	}
}

// TestRotationSurvivesEverything takes random steps with random facts, and opens the file
// again at any time, as a daemon does that was killed. Peers learn the new key before the
// first device has it, the second tunnel keeps the old one, and at the end only the new
// key is left.
func TestRotationSurvivesEverything(t *testing.T) {
	logtest.Capture(t, 0)
	r := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	s := NewStore(dir, "--state-dir", "node")
	before, err := s.State("one")
	if err != nil {
		t.Fatal(err)
	}
	rotations := 0
	for n := range 800 {
		if r.IntN(4) == 0 {
			s = NewStore(dir, "--state-dir", "node")
			if again, err := s.State("one"); err != nil || again.Step != before.Step || again.Device != before.Device || again.Published != before.Published || again.Second != before.Second || !again.Since.Equal(before.Since) {
				t.Fatalf("after a restart %+v is %+v, %v", before, again, err)
			}
		}
		if r.IntN(20) == 0 {
			if _, _, err := Request(dir); err != nil {
				t.Fatal(err)
			}
		}
		f := Facts{Now: noon.Add(time.Duration(n) * time.Minute), Known: r.IntN(3) > 0, Published: r.IntN(3) > 0}
		f.Here, f.Settled = time.Duration(r.Int64N(int64(2*limit))), time.Duration(r.Int64N(int64(2*settle)))
		changed, err := s.Rotate("one", f)
		if err != nil {
			t.Fatal(err)
		}
		now, err := s.State("one")
		if err != nil {
			t.Fatal(err)
		}
		ok := false
		switch {
		case now.Step == before.Step:
			ok = now == before && !changed
		case now.Step == Move:
			ok = before.Step == None && now.Device == before.Device && now.Published == before.Device && now.Second == before.Device
		case now.Step == Publish:
			ok = before.Step == Move && now.Device == before.Device && now.Second == before.Second && now.Published != before.Published
		case now.Step == Return:
			ok = before.Step == Publish && f.Published && now.Device == before.Published && now.Published == before.Published && now.Second == before.Second
		case now.Step == None:
			rotations++
			ok = before.Step == Return && now.Device == before.Device && now.Published == before.Device && now.Second == netstate.PublicKey{}
			if _, has := s.PrivateKey(before.Second); has {
				t.Error("the old key is kept")
			}
			if text, err := os.ReadFile(Path(dir)); err != nil || strings.Contains(string(text), "rotation") {
				t.Errorf("the file has %q, %v", text, err)
			}
		}
		if !ok || changed != (now.Step != before.Step) {
			t.Fatalf("%+v became %+v with %+v", before, now, f)
		}
		for _, key := range []netstate.PublicKey{now.Device, now.Published, now.Second} {
			if _, has := s.PrivateKey(key); !has && !key.IsZero() {
				t.Fatalf("%s has no private key in %+v", key, now)
			}
		}
		before = now
	}
	if rotations < 4 {
		t.Errorf("%d rotations", rotations)
	}
}

// TestRequests are served once each, and never by a rotation that began before.
func TestRequests(t *testing.T) {
	logtest.Capture(t, 0)
	dir := t.TempDir()
	if _, _, err := Request(dir); err == nil || !strings.Contains(err.Error(), Path(dir)) {
		t.Errorf("without a key: %v", err)
	}
	s := NewStore(dir, "--state-dir", "node")
	if _, err := s.State("one"); err != nil {
		t.Fatal(err)
	}
	request := func(step Step, requested bool) {
		t.Helper()
		if got, ok, err := Request(dir); got != step || ok != requested || err != nil {
			t.Errorf("requested %t in the step %s, %v", ok, got, err)
		}
	}
	f := Facts{Now: noon, Known: true, Published: true}
	rotate := func(want Step) {
		t.Helper()
		if _, err := s.Rotate("one", f); err != nil {
			t.Error(err)
		}
		if got, err := s.State("one"); got.Step != want || err != nil {
			t.Fatalf("the step is %s, %v", got.Step, err)
		}
	}
	request(None, true)
	request(None, false) // two in a row are one
	rotate(Move)
	request(Move, false)
	f.Here = limit
	rotate(Publish)
	request(Publish, false)
	rotate(Return)
	request(Return, false)
	rotate(None)
	rotate(None)
	request(None, true)
	rotate(Move)
	if err := os.WriteFile(RequestPath(dir), []byte("../etc/passwd\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rotate(Publish) // a bad request does not stop it
	rotate(Return)
	rotate(None)
	if _, err := s.Rotate("one", f); err == nil || !strings.Contains(err.Error(), RequestPath(dir)) {
		t.Errorf("a bad request: %v", err)
	}
	request(None, true) // replaces it
	rotate(Move)
}

// TestFailedWriteChangesNothing has no room for the file in each step.
func TestFailedWriteChangesNothing(t *testing.T) {
	logtest.Capture(t, 0)
	dir := filepath.Join(t.TempDir(), "state")
	s := NewStore(dir, "--state-dir", "node")
	if _, err := s.State("one"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Request(dir); err != nil {
		t.Fatal(err)
	}
	f := Facts{Now: noon, Known: true, Published: true, Here: limit}
	for range 4 {
		before, err := s.State("one")
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(Path(dir))
		if err != nil {
			t.Fatal(err)
		}
		// A folder in the file's place fails for root, too.
		aside := dir + ".key"
		if err := os.Rename(Path(dir), aside); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(Path(dir), 0o700); err != nil {
			t.Fatal(err)
		}
		if changed, err := s.Rotate("one", f); changed || err == nil || !strings.Contains(err.Error(), Path(dir)) {
			t.Errorf("in the step %s: %t, %v", before.Step, changed, err)
		}
		if after, err := s.State("one"); after != before || err != nil {
			t.Errorf("%+v became %+v, %v", before, after, err)
		}
		if err := os.Remove(Path(dir)); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(aside, Path(dir)); err != nil {
			t.Fatal(err)
		}
		if now, err := os.ReadFile(Path(dir)); string(now) != string(content) || err != nil {
			t.Errorf("the file has changed: %v", err)
		}
		if changed, err := s.Rotate("one", f); !changed || err != nil {
			t.Errorf("in the step %s: %t, %v", before.Step, changed, err)
		}
	}
}

// TestOldFilesAreDatedByTheDisk, because older versions wrote no date.
func TestOldFilesAreDatedByTheDisk(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(Path(dir), []byte(`{"version":1,"instance":"one","private_key":"`+alice+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	made := noon.Add(-1000 * time.Hour)
	if err := os.Chtimes(Path(dir), made, made); err != nil {
		t.Fatal(err)
	}
	s := NewStore(dir, "--state-dir", "node")
	if got, err := s.State("one"); !got.Made.Equal(made) || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestCopyDoesNotRotate: the rotation of a file that belongs to another instance is
// that machine's.
func TestCopyDoesNotRotate(t *testing.T) {
	logtest.Capture(t, 0)
	dir := t.TempDir()
	s := NewStore(dir, "--state-dir", "node")
	if _, err := s.State("one"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Request(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rotate("one", Facts{Now: noon, Known: true, Published: true}); err != nil {
		t.Fatal(err)
	}
	before, err := s.State("one")
	if err != nil || before.Step != Move {
		t.Fatalf("got %+v, %v", before, err)
	}
	after, err := s.State("two")
	if err != nil || after.Step != None || after.Device == before.Device || after.Device == before.Published {
		t.Errorf("the copy has %+v, %v", after, err)
	}
}

// TestReadersDoNotRace reads the state while steps are taken.
func TestReadersDoNotRace(t *testing.T) {
	logtest.Capture(t, 0)
	dir := t.TempDir()
	s := NewStore(dir, "--state-dir", "node")
	if _, err := s.State(""); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Request(dir); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for range 200 {
				if st, err := s.State(""); err != nil || (st.Step == None) != st.Second.IsZero() {
					t.Errorf("got %+v, %v", st, err)
				}
			}
		})
	}
	for range 4 {
		if changed, err := s.Rotate("", Facts{Now: noon, Known: true, Published: true, Here: limit}); !changed || err != nil {
			t.Errorf("got %t, %v", changed, err)
		}
	}
	running.Wait()
}

// TestRequestForAnEarlierKeyIsNotServed after the file was deleted.
func TestRequestForAnEarlierKeyIsNotServed(t *testing.T) {
	logtest.Capture(t, 0)
	dir := t.TempDir()
	if _, err := NewStore(dir, "--state-dir", "node").State(""); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Request(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(Path(dir)); err != nil {
		t.Fatal(err)
	}
	s := NewStore(dir, "--state-dir", "node")
	if changed, err := s.Rotate("", Facts{Now: noon, Known: true, Published: true}); changed || err != nil {
		t.Errorf("got %t, %v", changed, err)
	}
}
