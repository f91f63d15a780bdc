package gce

import (
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/gce/gcetest"
)

// testimony is what Google's own client makes of the server's answers.
type testimony struct {
	Instances []instance
	Pages     int
	Operation *operation
	Code      int
	Reason    string
}

// witness is the program that links Google's own client.
type witness struct{ path string }

// newWitness builds it, from a module of its own.
func newWitness(t *testing.T) witness {
	t.Helper()
	w := witness{filepath.Join(t.TempDir(), "gcewitness")}
	build := exec.Command("go", "build", "-C", "../../test/gcewitness", "-o", w.path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return w
}

// ask has it ask the server.
func (w witness) ask(t *testing.T, s *gcetest.Server, args ...string) (said testimony) {
	t.Helper()
	ask := exec.CommandContext(within(t, time.Minute), w.path, append([]string{s.Endpoint(), gcetest.Token, gcetest.Project, zone}, args...)...)
	text, err := ask.Output()
	if err == nil {
		err = json.Unmarshal(text, &said)
	}
	if err != nil {
		if e, ok := err.(*exec.ExitError); ok {
			text = e.Stderr
		}
		t.Fatalf("%q: %v\n%s", args, err, text)
	}
	return said
}

// Google's own client and ours read the same from one server, each sees what the other
// has changed, and the server refuses both for the same reasons.
func TestGooglesOwnClientAgrees(t *testing.T) {
	w := newWitness(t)
	s := gcetest.New(t)
	ids := fill(s, zone, 1100)
	s.Change(zone, "worker-0001", func(i *gcetest.Instance) { i.NetworkInterfaces[0].IPv6Address = "fd20:1:2:3:4:5::" })
	c := client(t, s)

	t.Run("pages", func(t *testing.T) { agree(t, c, w.ask(t, s, "list"), ids, 3) })
	t.Run("filter", func(t *testing.T) {
		before := len(s.Queries(listInstances))
		if _, err := c.Instances(within(t, time.Minute), ids[:20]); err != nil {
			t.Fatal(err)
		}
		agree(t, c, w.ask(t, s, "list", filterOf(t, s.Queries(listInstances)[before])), ids[:20], 1)
	})
	t.Run("changes", func(t *testing.T) {
		said := w.ask(t, s, "add", "worker-0002", one(t, c, ids[2]).Version, "10.80.0.0/24", "pods", request1)
		if said.Code != 0 || said.Operation == nil || said.Operation.Status != done || said.Operation.failure(updateInterface) != nil {
			t.Fatalf("%+v", said)
		}
		if err := c.AddAlias(within(t, time.Minute), change(t, c, ids[2], "10.80.1.0/24", request2)); err != nil {
			t.Fatal(err)
		}
		if got := s.Aliases(zone, "worker-0002"); !slices.Equal(got, []string{"10.64.2.0/24", "10.80.0.0/24", "10.80.1.0/24"}) {
			t.Errorf("%q", got)
		}
		agree(t, c, w.ask(t, s, "list", `(name = "worker-0002")`), ids[2:3], 1)
	})
	t.Run("refusals", func(t *testing.T) {
		for _, test := range []struct {
			args   []string
			code   int
			reason string
		}{
			{[]string{"add", "worker-0003", "stale", "10.80.2.0/24", "pods", request1[:35] + "7"}, 412, "conditionNotMet"},
			{[]string{"add", "gone", "x", "10.80.2.0/24", "pods", request1}, 404, "notFound"},
			{[]string{"add", "worker-0003", one(t, c, ids[3]).Version, "10.80.2.0/24", "pods", "no-uuid"}, 400, "invalid"},
			{[]string{"list", "name is worker"}, 400, "invalid"},
		} {
			if said := w.ask(t, s, test.args...); said.Code != test.code || said.Reason != test.reason {
				t.Errorf("%q: %+v", test.args, said)
			}
		}
	})
	t.Run("operations", func(t *testing.T) {
		said := w.ask(t, s, "add", "worker-0004", one(t, c, ids[4]).Version, "10.64.5.0/24", "pods", request1[:35]+"8")
		if said.Operation == nil || cloud.KindOf(said.Operation.failure(updateInterface)) != cloud.Taken {
			t.Errorf("%+v", said)
		}
		err := c.AddAlias(within(t, time.Minute), change(t, c, ids[4], "10.64.5.0/24", request1[:35]+"9"))
		if cloud.KindOf(err) != cloud.Taken {
			t.Errorf("%v", err)
		}
	})
}

// filterOf returns the filter of a request.
func filterOf(t *testing.T, query string) string {
	t.Helper()
	u, err := url.Parse(query)
	if err != nil || u.Query().Get("filter") == "" {
		t.Fatalf("%s has no filter: %v", query, err)
	}
	return u.Query().Get("filter")
}

// agree fails unless both clients read the same instances.
func agree(t *testing.T, c *Client, said testimony, ids []string, pages int) {
	t.Helper()
	ours, err := c.Instances(within(t, time.Minute), ids)
	if err != nil || len(ours) != len(ids) || len(said.Instances) != len(ids) || said.Pages != pages {
		t.Fatalf("ours reads %d, Google's %d on %d pages, %v", len(ours), len(said.Instances), said.Pages, err)
	}
	for n := range said.Instances {
		theirs := said.Instances[n].value()
		mine := ours[gcetest.ID(zone, theirs.Name)]
		if mine.Name != theirs.Name || mine.Version != theirs.Version || mine.IPv6 != theirs.IPv6 || mine.Problem != "" ||
			!slices.Equal(mine.Aliases, theirs.Aliases) || !strings.HasPrefix(theirs.Version, "fp-") {
			t.Errorf("ours reads %+v, Google's %+v", mine, theirs)
		}
	}
}
