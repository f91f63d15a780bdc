package gce

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/gce/gcetest"
)

func TestReadsOneInstanceInOneRequest(t *testing.T) {
	s := gcetest.New(t)
	s.Add("europe-west1-b", "worker-1", "pods", "10.4.7.0/24", "10.9.0.5")
	s.Change("europe-west1-b", "worker-1", func(i *gcetest.Instance) {
		i.NetworkInterfaces[0].IPv6Address = "fd20:1:2:3:4:5::"
		// The interface nic0 counts, wherever it stands.
		i.NetworkInterfaces = append([]gcetest.Interface{{Name: "nic1", AliasIPRanges: []gcetest.AliasRange{{IPCidrRange: "10.200.0.0/24"}}}}, i.NetworkInterfaces...)
	})
	got := one(t, client(t, s), gcetest.ID("europe-west1-b", "worker-1"))
	want := []cloud.Alias{{Range: netip.MustParsePrefix("10.4.7.0/24"), From: "pods"}, {Range: netip.MustParsePrefix("10.9.0.5/32"), From: "pods"}}
	if got.Problem != "" || got.Name != "worker-1" || got.Version == "" || !slices.Equal(got.Aliases, want) || got.IPv6.String() != "fd20:1:2:3:4:5::/112" {
		t.Errorf("%+v", got)
	}
	if s.Asked("") != 1 || s.Asked("instances.get") != 1 {
		t.Errorf("%d requests", s.Asked(""))
	}
}

func TestReadsExternalIPv6(t *testing.T) {
	s := gcetest.New(t)
	s.Add("europe-west1-b", "worker-1", "pods")
	s.Change("europe-west1-b", "worker-1", func(i *gcetest.Instance) {
		d := &i.NetworkInterfaces[0]
		d.IPv6AccessType, d.IPv6AccessConfigs = "EXTERNAL", []gcetest.IPv6Access{{ExternalIPv6: "2600:1900:1:2:3:4::"}}
	})
	if got := one(t, client(t, s), gcetest.ID("europe-west1-b", "worker-1")); got.IPv6.String() != "2600:1900:1:2:3:4::/112" {
		t.Errorf("%+v", got)
	}
}

func TestReadsAFewByNameAndManyByPages(t *testing.T) {
	for _, test := range []struct{ all, wanted, requests int }{
		{700, 2, 1}, {700, mostNamed, 1}, {700, mostNamed + 1, 2}, {1200, 1200, 3}, {500, 500, 1},
	} {
		s := gcetest.New(t)
		ids := fill(s, "europe-west1-b", test.all)
		c := client(t, s)
		got, err := c.Instances(within(t, time.Minute), ids[test.all-test.wanted:])
		if err != nil || len(got) != test.wanted || s.Asked("") != test.requests {
			t.Errorf("%+v: %d instances in %d requests, %v", test, len(got), s.Asked(""), err)
		}
		for id, i := range got {
			if i.Problem != "" || len(i.Aliases) != 1 {
				t.Errorf("%s: %+v", id, i)
			}
		}
		for _, q := range s.Queries("instances.list") {
			u, _ := url.Parse(q)
			if named := u.Query().Has("filter"); named != (test.wanted <= mostNamed) || !strings.Contains(u.Query().Get("fields"), "nextPageToken") {
				t.Errorf("%+v asks %s", test, q)
			}
		}
		if calls := c.Calls(); calls[cloud.Call{Action: "instances.list", Outcome: "ok"}] != test.requests {
			t.Errorf("%v", calls)
		}
	}
}

// A kubelet may name any instance. That keeps no other instance from being read.
func TestOneBadIDHarmsNoOther(t *testing.T) {
	s := gcetest.New(t)
	good := append(fill(s, "europe-west1-b", 3), fill(s, "europe-west1-c", 3)...)
	bad := []string{
		"", "gce://", "aws:///eu-west-1a/i-1", "gce://my-project-1/europe-west1-b", "gce://my-project-1/europe-west1-b/worker-1/x",
		"gce://my-project-1/europe-west1-b/../worker-1", "gce://my-project-1/europe-west1-b/worker-1?x=1", "gce://my-project-1/europe-west1-b/WORKER",
		"gce://other-project/europe-west1-b/worker-0001", "gce://my-project-1/zone/worker-0001", "gce://my-project-1/europe-west1-b/" + strings.Repeat("a", 64),
		"gce://my-project-1/europe-west1-b/worker-1\n", "gce://my-project-1/nowhere-1a/worker-0001", "gce://my-project-1/nowhere-1b/worker-0001",
		"gce://my-project-1/nowhere-1b/worker-0002", gcetest.ID("europe-west1-b", "gone"),
	}
	got, err := client(t, s).Instances(within(t, time.Minute), slices.Concat(bad, good))
	if err != nil || len(got) != len(bad)+len(good) {
		t.Fatalf("%d instances, %v: %v", len(got), err, slices.Sorted(maps.Keys(got)))
	}
	for _, id := range bad {
		if got[id].Problem == "" {
			t.Errorf("%q: %+v", id, got[id])
		}
	}
	for _, id := range good {
		if got[id].Problem != "" {
			t.Errorf("%q: %+v", id, got[id])
		}
	}
}

// A zone that cannot be read keeps no other back.
func TestOneFailingZoneHarmsNoOther(t *testing.T) {
	s := gcetest.New(t)
	b, c := fill(s, "europe-west1-b", 2), fill(s, "europe-west1-c", 1)
	forbidden := &gcetest.Fault{Code: 403, Reason: "forbidden", Message: "Required 'compute.instances.list' permission for 'projects/my-project-1'"}
	s.Do(func() { s.Refuse = fault("instances.list", forbidden) })
	got, err := client(t, s).Instances(within(t, time.Minute), slices.Concat(b, c))
	if cloud.KindOf(err) != cloud.Unavailable && err == nil || len(got) != 1 || got[c[0]].Name == "" {
		t.Errorf("%v, %v", got, err)
	}
	for _, part := range []string{"instances.list", "403", "grant the service account compute.instances.list", Scope} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %q", err, part)
		}
	}
}

// The API refuses an unknown zone with 404 or 400. Only the Nodes that name it are wrong.
func TestAnUnknownZoneHarmsNoOther(t *testing.T) {
	for action, n := range map[string]int{getInstance: 1, listInstances: 2} {
		s := gcetest.New(t)
		good := fill(s, "europe-west1-b", 3-n) // read by the other action
		var unknown []string
		for i := range n {
			unknown = append(unknown, gcetest.ID("mars-a1", fmt.Sprint("worker-", i)))
		}
		s.Do(func() {
			s.Refuse = fault(action, &gcetest.Fault{Code: 400, Reason: "invalid", Message: "Invalid value for field 'zone': 'mars-a1'. Unknown zone."})
		})
		got, err := client(t, s).Instances(within(t, time.Minute), slices.Concat(good, unknown))
		if err != nil || got[good[0]].Name == "" {
			t.Errorf("%s: %v, %v", action, got, err)
		}
		for _, id := range unknown {
			if why := got[id].Problem; !strings.Contains(why, "Unknown zone") || !strings.Contains(why, "with the provider ID of its instance") {
				t.Errorf("%s: %s: %q", action, id, why)
			}
		}
	}
}

// A page that is over a quota is asked for again, and not the pages before it.
func TestGoesOnWithAPageAfterAQuota(t *testing.T) {
	s := gcetest.New(t)
	ids := fill(s, "europe-west1-b", 1200)
	pages := 0
	s.Do(func() {
		s.Refuse = func(string) *gcetest.Fault {
			switch pages++; pages {
			case 2:
				return &gcetest.Fault{Code: 429, Reason: "rateLimitExceeded", Message: "Rate Limit Exceeded", After: "1"}
			case 3:
				return &gcetest.Fault{Code: 403, Reason: "rateLimitExceeded", Message: "Quota exceeded"}
			case 5:
				return &gcetest.Fault{Code: 503, Reason: "backendError", Message: "Backend Error"}
			}
			return nil
		}
	})
	c := client(t, s)
	began := time.Now()
	got, err := c.Instances(within(t, time.Minute), ids)
	if err != nil || len(got) != 1200 || s.Asked("instances.list") != 6 {
		t.Errorf("%d instances in %d requests, %v", len(got), s.Asked(""), err)
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("it did not wait for Retry-After: %s", took)
	}
	calls := c.Calls()
	for outcome, want := range map[string]int{"ok": 3, "throttled": 2, "unavailable": 1} {
		if n := calls[cloud.Call{Action: "instances.list", Outcome: outcome}]; n != want {
			t.Errorf("%s: %d, want %d", outcome, n, want)
		}
	}
}

// Without time to wait, the error has the pause that the API asks for.
func TestQuotaWithoutTimeIsReported(t *testing.T) {
	s := gcetest.New(t)
	s.Add("europe-west1-b", "worker-1", "pods")
	s.Do(func() {
		s.Refuse = func(string) *gcetest.Fault {
			return &gcetest.Fault{Code: 429, Reason: "rateLimitExceeded", Message: "Rate Limit Exceeded", After: "70"}
		}
	})
	c := client(t, s)
	_, err := c.Instances(within(t, 5*time.Second), []string{gcetest.ID("europe-west1-b", "worker-1")})
	if err == nil || !strings.Contains(err.Error(), "quota") || s.Asked("") != 1 {
		t.Errorf("%d requests, %v", s.Asked(""), err)
	}
	// The next request does not go out, either.
	if _, err := c.Instances(within(t, 100*time.Millisecond), []string{gcetest.ID("europe-west1-b", "worker-1")}); err == nil || s.Asked("") != 1 {
		t.Errorf("%d requests, %v", s.Asked(""), err)
	}
}

func TestAnswersThatAreNoJSON(t *testing.T) {
	s := gcetest.New(t)
	s.Add("europe-west1-b", "worker-1", "pods")
	c := client(t, s)
	c.options.Endpoint = s.URL + "/elsewhere/"
	got, err := c.Instances(within(t, time.Minute), []string{gcetest.ID("europe-west1-b", "worker-1")})
	if err != nil || !strings.Contains(got[gcetest.ID("europe-west1-b", "worker-1")].Problem, "there is no instance") {
		t.Errorf("%v, %v", got, err)
	}
}

// FuzzProviderID: a request goes to no path but that of an instance of the project.
func FuzzProviderID(f *testing.F) {
	for _, seed := range []string{"gce://my-project-1/europe-west1-b/worker-1", "gce://a/b/c", "gce://my-project-1/europe-west1-b/..", "gce:////"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		n, err := parse(id, gcetest.Project)
		if err != nil {
			return
		}
		if again := scheme + n.project + "/" + n.zone + "/" + n.instance; again != id || n.project != gcetest.Project || url.PathEscape(n.zone+n.instance) != n.zone+n.instance {
			t.Errorf("%q is %+v", id, n)
		}
	})
}
