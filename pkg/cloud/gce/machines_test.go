package gce

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/gce/gcetest"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// sixZones are more zones than are read one by one.
var sixZones = []string{"europe-west1-b", "europe-west1-c", "europe-west1-d", "europe-west4-a", "europe-west4-b", "europe-west4-c"}

// inZones calls f in a bubble with a server that has n instances in each zone, and a
// client.
func inZones(t *testing.T, n int, f func(t *testing.T, s *gcetest.Server, c *Client, ids []string)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		s := gcetest.InProcess(t)
		var ids []string
		for z, zone := range sixZones {
			for i := range n {
				name := fmt.Sprintf("w%d-%d", z, i)
				s.Add(zone, name, "pods")
				ids = append(ids, gcetest.ID(zone, name))
			}
		}
		f(t, s, routing(t, s), ids)
		<-time.After(time.Minute) // of the bubble
	})
}

func TestWhatAnInstanceTells(t *testing.T) {
	inZones(t, 1, func(t *testing.T, s *gcetest.Server, c *Client, ids []string) {
		s.Change(sixZones[0], "w0-0", func(i *gcetest.Instance) {
			i.NetworkInterfaces[0].NetworkIP = "10.128.0.7"
			i.NetworkInterfaces[0].AccessConfigs = []gcetest.IPv4Access{{NatIP: "203.0.113.7"}, {}}
			i.NetworkInterfaces[0].IPv6Address = "fd20:1:2:3::"
			i.NetworkInterfaces = append(i.NetworkInterfaces, gcetest.Interface{Name: "nic1", NetworkIP: "10.200.0.7"})
		})
		got := one(t, c, ids[0])
		want := []cloud.Address{{Type: "InternalIP", Value: "10.128.0.7"}, {Type: "ExternalIP", Value: "203.0.113.7"}, {Type: "InternalIP", Value: "10.200.0.7"}, {Type: "InternalIP", Value: "fd20:1:2:3::"}}
		if !slices.Equal(got.Addresses, want) {
			t.Errorf("%v", got.Addresses)
		}
		if got.ID != "europe-west1-b/w0-0" || got.Name != "w0-0" || got.ProviderID != ids[0] || got.Type != "e2-standard-4" || got.Zone != "europe-west1-b" || got.Region != "europe-west1" ||
			got.Account != gcetest.Project || got.Network != defaultNetwork || !got.Forwards || got.State != cloud.Running || got.Launched.IsZero() || got.Problem != "" {
			t.Errorf("%+v", got)
		}
		c.options.Config.IPv6First = true
		<-time.After(2 * time.Second)
		if got := one(t, c, ids[0]); got.Addresses[0].Value != "fd20:1:2:3::" || got.Addresses[1].Value != "10.128.0.7" {
			t.Errorf("%v", got.Addresses)
		}
	})
}

func TestStatesOfInstances(t *testing.T) {
	inZones(t, 1, func(t *testing.T, s *gcetest.Server, c *Client, ids []string) {
		for status, want := range map[string]cloud.State{
			"PROVISIONING": cloud.Starting, "RUNNING": cloud.Running, "STOPPING": cloud.Stopping, "TERMINATED": cloud.Stopped, "SUSPENDED": cloud.Stopped,
			"DEPROVISIONING": cloud.Stopping, "A_LATER_WORD": cloud.Running,
		} {
			s.Change(sixZones[0], "w0-0", func(i *gcetest.Instance) { i.Status = status })
			<-time.After(2 * time.Second)
			if got := one(t, c, ids[0]); got.State != want || got.State.IsGone() {
				t.Errorf("%s is %s", status, got.State)
			}
		}
	})
}

func TestManyZonesAreReadAtOnce(t *testing.T) {
	inZones(t, 3, func(t *testing.T, s *gcetest.Server, c *Client, ids []string) {
		for range 3 { // callers of a moment share the answer
			got, err := c.Instances(within(t, time.Minute), append(slices.Clone(ids), gcetest.ID(sixZones[0], "gone"), gcetest.ID("mars-a1", "gone")))
			if err != nil || len(got) != 20 || s.Asked(listAll) != 1 {
				t.Fatalf("%d instances, %d requests, %v", len(got), s.Asked(""), err)
			}
			if got[gcetest.ID(sixZones[0], "gone")].State != cloud.Absent || got[ids[4]].State != cloud.Running {
				t.Errorf("%+v", got)
			}
			// The list does not have that zone, so nothing there is absent.
			if i := got[gcetest.ID("mars-a1", "gone")]; i.State != "" || i.Problem == "" {
				t.Errorf("%+v", i)
			}
		}
	})
	inZones(t, 200, func(t *testing.T, s *gcetest.Server, c *Client, ids []string) {
		got, err := c.Instances(within(t, time.Minute), ids)
		if err != nil || len(got) != 1200 || s.Asked("") != 3 {
			t.Errorf("%d instances, %d requests, %v", len(got), s.Asked(""), err)
		}
	})
}

// What an answer may lack is unknown, and never absent.
func TestDoubtIsNeverAbsence(t *testing.T) {
	absent := func(all map[string]cloud.Instance) (n int) {
		for _, i := range all {
			if i.State == cloud.Absent {
				n++
			}
		}
		return n
	}
	for name, spoil := range map[string]func(s *gcetest.Server){
		"partial":     func(s *gcetest.Server) { s.Partial = "PARTIAL_SUCCESS" },
		"unreachable": func(s *gcetest.Server) { s.Partial = "UNREACHABLE" },
		"no list":     func(s *gcetest.Server) { s.Garble = func(string) string { return `{}` } },
		"no JSON":     func(s *gcetest.Server) { s.Garble = func(string) string { return `<html>` } },
		"forbidden": func(s *gcetest.Server) {
			s.Refuse = func(string) *gcetest.Fault { return &gcetest.Fault{Code: 403, Reason: "forbidden"} }
		},
		"another API": func(s *gcetest.Server) { s.Refuse = func(string) *gcetest.Fault { return &gcetest.Fault{Code: 404} } },
		"server": func(s *gcetest.Server) {
			s.Refuse = func(string) *gcetest.Fault { return &gcetest.Fault{Code: 502} }
		},
		"lost": func(s *gcetest.Server) { s.Lose = func(string) bool { return true } },
		"loop": func(s *gcetest.Server) {
			s.Garble = func(action string) string {
				return map[string]string{
					listInstances: `{"kind":"compute#instanceList","nextPageToken":"x"}`, listAll: `{"kind":"compute#instanceAggregatedList","nextPageToken":"x"}`,
				}[action]
			}
		},
	} {
		inZones(t, 2, func(t *testing.T, s *gcetest.Server, c *Client, ids []string) {
			for _, zone := range sixZones {
				for i := range 2 {
					s.Remove(zone, fmt.Sprintf("w%d-%d", slices.Index(sixZones, zone), i))
				}
			}
			s.Do(func() { spoil(s) })
			for _, some := range [][]string{ids[:1], ids[:2], ids} {
				<-time.After(2 * time.Second)
				if got, _ := c.Instances(within(t, 25*time.Second), some); absent(got) > 0 {
					t.Errorf("%s: %v", name, got)
				}
			}
			byName, err := c.Named(within(t, time.Hour), []string{"w0-0", "w1-0.c.my-project-1.internal"})
			byAddress, err2 := c.Addressed(within(t, time.Hour), []string{"10.128.0.2"})
			if err == nil || err2 == nil || len(byName)+len(byAddress) > 0 {
				t.Errorf("%s: %v %v, %v %v", name, byName, err, byAddress, err2)
			}
		})
	}
}

// A zone that does not answer keeps no other back.
func TestAnUnreachableZone(t *testing.T) {
	inZones(t, 2, func(t *testing.T, s *gcetest.Server, c *Client, ids []string) {
		s.Do(func() { s.Unreachable = map[string]bool{sixZones[0]: true} })
		got, err := c.Instances(within(t, time.Minute), ids)
		if err == nil || !strings.Contains(err.Error(), sixZones[0]) || len(got) != 10 {
			t.Errorf("%d instances, %v", len(got), err)
		}
		named, err := c.Named(within(t, time.Minute), []string{"w0-0", "w1-0"})
		if err == nil || len(named) != 1 || named["w1-0"].ID != "europe-west1-c/w1-0" {
			t.Errorf("%v, %v", named, err)
		}
		// A zone that the config leaves out is none of our business.
		c.options.Config.Zone = sixZones[3]
		named, err = c.Named(within(t, time.Minute), []string{"w0-0", "w3-0"})
		if err != nil || named["w0-0"].State != cloud.Absent || named["w3-0"].Zone != sixZones[3] {
			t.Errorf("%v, %v", named, err)
		}
	})
}

func TestInstancesByNameAndByAddress(t *testing.T) {
	inZones(t, 2, func(t *testing.T, s *gcetest.Server, c *Client, _ []string) {
		s.Add(sixZones[1], "twice", "pods")
		s.Add(sixZones[4], "twice", "pods")
		s.Change(sixZones[0], "w0-0", func(i *gcetest.Instance) { i.NetworkInterfaces[0].NetworkIP = "10.128.9.9" })
		got, err := c.Named(within(t, time.Minute), []string{"w0-0", "w0-0.europe-west1-b.c.my-project-1.internal", "unknown", "twice", "W0", "../x"})
		if err != nil || len(got) != 6 || got["w0-0"].ProviderID != gcetest.ID(sixZones[0], "w0-0") || got["w0-0.europe-west1-b.c.my-project-1.internal"].ID != got["w0-0"].ID {
			t.Errorf("%v, %v", got, err)
		}
		for name, part := range map[string]string{"unknown": "has the name unknown", "twice": "both match", "W0": "not the name", "../x": "not the name"} {
			if !strings.Contains(got[name].Problem, part) || (got[name].State == cloud.Absent) != (name == "unknown") {
				t.Errorf("%s: %+v", name, got[name])
			}
		}
		// One address of two instances spoils no other one of theirs.
		s.Change(sixZones[1], "twice", func(i *gcetest.Instance) { i.NetworkInterfaces[0].NetworkIP = "10.131.0.1" })
		s.Change(sixZones[4], "twice", func(i *gcetest.Instance) {
			second := i.NetworkInterfaces[0]
			i.NetworkInterfaces[0].NetworkIP = "10.131.0.1"
			second.Name, second.NetworkIP = "nic1", "10.132.0.1"
			i.NetworkInterfaces = append(i.NetworkInterfaces, second)
		})
		got, err = c.Addressed(within(t, time.Minute), []string{"10.131.0.1", "10.132.0.1"})
		if err != nil || !strings.Contains(got["10.131.0.1"].Problem, "both match") || got["10.132.0.1"].Zone != sixZones[4] {
			t.Errorf("%v, %v", got, err)
		}
		// A zone of the config decides between two of a name.
		c.options.Config.Zone, c.options.Config.Regional = "europe-west4-a", true
		if got, err = c.Named(within(t, time.Minute), []string{"twice"}); err != nil || got["twice"].Zone != sixZones[4] {
			t.Errorf("%v, %v", got, err)
		}
		c.options.Config = Config{}
		got, err = c.Addressed(within(t, time.Minute), []string{"10.128.9.9", "10.128.99.99", "x"})
		if err != nil || got["10.128.9.9"].Name != "w0-0" || got["10.128.99.99"].State != cloud.Absent || !strings.Contains(got["x"].Problem, "no address") {
			t.Errorf("%v, %v: %v", got, err, slices.Sorted(maps.Keys(got)))
		}
	})
}
