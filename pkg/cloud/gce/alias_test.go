package gce

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/gce/gcetest"
)

const zone = "europe-west1-b"

// id1 is the instance of most tests.
var id1 = gcetest.ID(zone, "worker-1")

// newWorker returns a server with that instance, which has these ranges of others.
func newWorker(t *testing.T, aliases ...string) (*gcetest.Server, *Client) {
	s := gcetest.New(t)
	s.Add(zone, "worker-1", "other", aliases...)
	s.Do(func() {
		s.Secondary = map[string]netip.Prefix{"pods": netip.MustParsePrefix("10.64.0.0/14"), "other": netip.MustParsePrefix("10.0.0.0/10")}
	})
	return s, client(t, s)
}

func TestAddsAnAliasAndKeepsThoseOfOthers(t *testing.T) {
	s, c := newWorker(t, "10.1.0.0/24", "10.1.1.0/28")
	if err := c.AddAlias(t.Context(), change(t, c, id1, "10.64.7.0/24", request1)); err != nil {
		t.Fatal(err)
	}
	if got := s.Aliases(zone, "worker-1"); !slices.Equal(got, []string{"10.1.0.0/24", "10.1.1.0/28", "10.64.7.0/24"}) {
		t.Errorf("%q", got)
	}
	for _, a := range one(t, c, id1).Aliases {
		if want := map[bool]string{true: "pods", false: "other"}[a.Range.Addr().String() == "10.64.7.0"]; a.From != want {
			t.Errorf("%v is of %q", a.Range, a.From)
		}
	}
}

func TestAddingTwiceChangesNothing(t *testing.T) {
	s, c := newWorker(t)
	add := change(t, c, id1, "10.64.7.0/24", request1)
	for range 2 {
		if err := c.AddAlias(t.Context(), add); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Asked(updateInterface); n != 1 || len(s.Aliases(zone, "worker-1")) != 1 {
		t.Errorf("%d changes, %q", n, s.Aliases(zone, "worker-1"))
	}
}

// A late change of another leader does not reach an interface that has changed since.
func TestAChangedInterfaceIsLeftAlone(t *testing.T) {
	s, c := newWorker(t)
	late := change(t, c, id1, "10.64.7.0/24", request1)
	if err := c.AddAlias(t.Context(), change(t, c, id1, "10.64.8.0/24", request2)); err != nil {
		t.Fatal(err)
	}
	if err := c.AddAlias(t.Context(), late); cloud.KindOf(err) != cloud.Changed {
		t.Errorf("%v", err)
	}
	// It has changed between our read and our write.
	next := change(t, c, id1, "10.64.9.0/24", request1)
	s.Do(func() {
		s.Refuse = func(action string) *gcetest.Fault {
			if action == updateInterface {
				return &gcetest.Fault{Code: 412, Reason: "conditionNotMet", Message: "Fingerprint mismatch."}
			}
			return nil
		}
	})
	if err := c.AddAlias(t.Context(), next); cloud.KindOf(err) != cloud.Changed {
		t.Errorf("%v", err)
	}
	if got := s.Aliases(zone, "worker-1"); !slices.Equal(got, []string{"10.64.8.0/24"}) {
		t.Errorf("%q", got)
	}
}

func TestALateOperationIsPendingAndIsFoundAgain(t *testing.T) {
	for _, idle := range []bool{false, true} {
		s, c := newWorker(t)
		s.Do(func() { s.Late, s.Idle = true, idle })
		add := change(t, c, id1, "10.64.7.0/24", request1)
		waits := 1
		if idle {
			waits = 3 // one may be of the call before
		}
		for range 2 {
			err := c.AddAlias(untilWaited(t, s, waits), add)
			if cloud.KindOf(err) != cloud.Pending || cloud.KindOf(err).IsFinal() || !strings.Contains(err.Error(), "operation-1") {
				t.Fatalf("%v", err)
			}
		}
		ended := make(chan error)
		go func() { ended <- c.AddAlias(within(t, time.Minute), add) }()
		s.Release()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if got := s.Aliases(zone, "worker-1"); !slices.Equal(got, []string{"10.64.7.0/24"}) {
			t.Errorf("%q", got)
		}
	}
}

func TestAFailedOperationIsReported(t *testing.T) {
	s, c := newWorker(t)
	s.Add(zone, "worker-2", "pods", "10.64.8.0/24")
	for code, want := range map[string]cloud.Kind{
		"INTERNAL_ERROR": cloud.Refused, "RESOURCE_OPERATION_RATE_EXCEEDED": cloud.Throttled, "IP_IN_USE_BY_ANOTHER_RESOURCE": cloud.Taken,
	} {
		s.Do(func() { s.Fails = code })
		err := c.AddAlias(t.Context(), change(t, c, id1, "10.64.7.0/24", ""))
		if cloud.KindOf(err) != want || !strings.Contains(err.Error(), code) {
			t.Errorf("%s: %v", code, err)
		}
	}
	s.Do(func() { s.Fails = "" })
	if err := c.AddAlias(t.Context(), change(t, c, id1, "10.64.8.0/25", request1)); cloud.KindOf(err) != cloud.Taken {
		t.Errorf("%v", err)
	}
	if err := c.AddAlias(t.Context(), change(t, c, id1, "10.99.8.0/24", request2)); cloud.KindOf(err) != cloud.Refused {
		t.Errorf("%v", err)
	}
	if got := s.Aliases(zone, "worker-1"); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

// The change was made and its answer lost. The same request finds the same operation.
func TestALostAnswerIsNoSecondChange(t *testing.T) {
	s, c := newWorker(t)
	lost := 0
	s.Do(func() {
		s.Lose = func(action string) bool {
			if action == updateInterface {
				lost++
			}
			return lost == 1 && action == updateInterface
		}
	})
	if err := c.AddAlias(t.Context(), change(t, c, id1, "10.64.7.0/24", request1)); err != nil {
		t.Fatal(err)
	}
	if got := s.Aliases(zone, "worker-1"); !slices.Equal(got, []string{"10.64.7.0/24"}) || s.Asked(updateInterface) != 2 {
		t.Errorf("%q in %d requests", got, s.Asked(updateInterface))
	}
}

func TestErrorsNameThePermission(t *testing.T) {
	for _, test := range []struct {
		action string
		fault  gcetest.Fault
		kind   cloud.Kind
		says   string
	}{
		{getInstance, gcetest.Fault{Code: 403, Reason: "forbidden", Message: "Required 'compute.instances.get' permission"}, cloud.Denied, "grant the service account compute.instances.get"},
		{updateInterface, gcetest.Fault{Code: 403, Reason: "forbidden", Message: "Required 'compute.subnetworks.use' permission"}, cloud.Denied, "compute.instances.updateNetworkInterface and compute.subnetworks.use"},
		{getInstance, gcetest.Fault{Code: 401, Reason: "authError", Message: "Invalid Credentials"}, cloud.Denied, "check the service account's key"},
		{getInstance, gcetest.Fault{Code: 404, Reason: "notFound", Message: "The resource was not found"}, cloud.Missing, "was not found"},
		{updateInterface, gcetest.Fault{Code: 400, Reason: "invalid", Message: "Invalid value"}, cloud.Refused, "Invalid value"},
		{waitOperation, gcetest.Fault{Code: 403, Reason: "forbidden", Message: "no"}, cloud.Pending, "compute.zoneOperations.get"},
		{waitOperation, gcetest.Fault{Code: 404, Reason: "notFound", Message: "no"}, cloud.Pending, "has not ended as far as is known"},
	} {
		s, c := newWorker(t)
		add := change(t, c, id1, "10.64.7.0/24", request1)
		s.Do(func() { s.Late, s.Refuse = true, fault(test.action, &test.fault) })
		err := c.AddAlias(within(t, time.Second), add)
		if cloud.KindOf(err) != test.kind || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s %d: %v", test.action, test.fault.Code, err)
		}
	}
}

func TestAddAliasRefusesAHostileID(t *testing.T) {
	s, c := newWorker(t)
	for _, id := range []string{"gce://other-project/europe-west1-b/worker-1", "gce://my-project-1/europe-west1-b/../x"} {
		if err := c.AddAlias(t.Context(), cloud.Change{ID: id}); cloud.KindOf(err) != cloud.Refused || s.Asked("") > 0 {
			t.Errorf("%v after %d requests", err, s.Asked(""))
		}
	}
}
