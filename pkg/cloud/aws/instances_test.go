package aws

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

func TestDescribesAnInstance(t *testing.T) {
	f, c := newAccount(t)
	n := f.AddNetwork("10.0.0.0/16", 24, true)
	at := f.Launch(awstest.Launch{Subnet: n.Subnets[1], Type: "c7g.large", V6: 1, Tags: tagged})[0]
	got, err := c.Instances(t.Context(), []string{idOf(at)})
	if err != nil {
		t.Fatal(err)
	}
	i := got[idOf(at)]
	if i.ID != at.ID || i.ProviderID != idOf(at) || i.State != cloud.Running || i.Type != "c7g.large" || i.Zone != at.Zone || i.ZoneID == "" || i.Region != c.Region() ||
		i.Account != awstest.Account || i.Network != n.VPC || i.Interface != at.Interface || i.Forwards || i.Problem != "" || i.Launched.IsZero() {
		t.Errorf("%+v of %+v", i, at)
	}
	want := []cloud.Address{{Type: cloud.InternalIP, Value: at.Private.String()}, {Type: cloud.InternalDNS, Value: at.Name}, {Type: cloud.Hostname, Value: at.Name}}
	if !slices.Equal(i.Addresses, want) {
		t.Errorf("%v, want %v", i.Addresses, want)
	}
	// Both families, in the order of the cloud config.
	both := newClient(t, "[Global]\nNodeIPFamilies = ipv6\nNodeIPFamilies = ipv4\n")
	if got, err = both.Instances(t.Context(), []string{idOf(at)}); err != nil || len(got[idOf(at)].Addresses) != 4 || got[idOf(at)].Addresses[0].Value != at.V6[0].String() {
		t.Errorf("%v, %v", got[idOf(at)].Addresses, err)
	}
}

func TestDescribesEveryState(t *testing.T) {
	f, c := newAccount(t)
	all := f.Launch(awstest.Launch{Count: 4})
	f.Stop(all[1].ID)
	f.Terminate(all[2].ID)
	f.Vanish(all[3].ID)
	got, err := c.Instances(t.Context(), idsOf(all))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []cloud.State{cloud.Running, cloud.Stopped, cloud.Terminated, cloud.Absent} {
		if is := got[idOf(all[i])]; is.State != want || (is.Problem == "") == (want == cloud.Absent) {
			t.Errorf("%+v, want it %s", is, want)
		}
	}
}

// TestForeignProviderIDsAreNotAbsent: the client reports IDs that AWS cannot have, and still
// reads the others.
func TestForeignProviderIDsAreNotAbsent(t *testing.T) {
	f, c := newAccount(t)
	good := idOf(f.Launch(awstest.Launch{})[0])
	bad := []string{"gce://p/z/i", "aws:///mars-1a/i-0123456789abcdef0", "aws:///eu-central-1a/fargate-1", "i-*", ""}
	got, err := c.Instances(t.Context(), append(slices.Clone(bad), good))
	if err != nil || got[good].State != cloud.Running {
		t.Errorf("%+v, %v", got[good], err)
	}
	for _, id := range bad {
		if i := got[id]; i.Problem == "" || i.State != "" {
			t.Errorf("%q: %+v", id, i)
		}
	}
	if n := f.Count(describeInstances); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// requests returns the number of different requests. A busy machine may answer one so late that
// it is sent again.
func requests(f *awstest.Server) int {
	all := make(map[string]bool)
	for _, call := range f.Calls() {
		all[fmt.Sprint(call.Parameters())] = true
	}
	return len(all)
}

func TestReadsManyInstancesInFewCalls(t *testing.T) {
	f, c := newAccount(t)
	n := f.AddNetwork("10.0.0.0/8", 18, false)
	var all []awstest.Instance
	for _, s := range n.Subnets[:1] {
		all = append(all, f.Launch(awstest.Launch{Count: 450, Subnet: s, Tags: tagged})...)
	}
	got, err := c.Instances(t.Context(), idsOf(all))
	if err != nil || len(got) != 450 || requests(f) != 3 {
		t.Fatalf("%d instances in %d requests, %v", len(got), requests(f), err)
	}
	// Many instances are read by the tag first, in pages, and those without it by ID. A read
	// by the tag may take a third of the caller's time, so this caller has no deadline.
	all = append(all, f.Launch(awstest.Launch{Count: 3, Subnet: n.Subnets[0]})...)
	gone := "aws:////i-0123456789abcdef0"
	f.Forget()
	f.Set(func(s *awstest.Settings) { s.Page = 230 })
	c = newClient(t, "")
	if c.many != 1000 {
		t.Errorf("up to %d instances are read by their IDs, want 1000", c.many)
	}
	c.many = 453
	got, err = c.read(t.Context(), append(idsOf(all), gone))
	if err != nil || len(got) != len(all)+1 || requests(f) != 3 {
		t.Fatalf("%d instances in %d requests, %v", len(got), requests(f), err)
	}
	for id, i := range got {
		if want := map[bool]cloud.State{true: cloud.Absent, false: cloud.Running}[id == gone]; i.State != want {
			t.Errorf("%s: %+v", id, i)
		}
	}
	for _, call := range f.Calls() {
		if call.Value("MaxResults") == "" || call.Value("Filter.1.Name") == "" {
			t.Errorf("%s is not filtered, or not in pages", call)
		}
	}
}

// TestAMissingPageMakesNothingAbsent: an answer that lacks a page proves no absence.
func TestAMissingPageMakesNothingAbsent(t *testing.T) {
	for name, fault := range map[string]awstest.Fault{
		"denied": {Pass: 1, Answer: awstest.Unauthorized}, "internal": {Pass: 1, Answer: awstest.Internal},
		"half": {Pass: 1, Half: true}, "reset": {Pass: 1, Reset: true}, "lost": {Pass: 1, Lose: true}, "expired": {Pass: 1, Answer: awstest.ExpiredToken},
	} {
		f, c := newAccount(t)
		all := f.Launch(awstest.Launch{Count: 40})
		f.Set(func(s *awstest.Settings) { s.Page = 15 })
		fault.Action = describeInstances
		f.Inject(fault)
		got, err := c.Instances(within(t, 3*time.Second), idsOf(all))
		if err == nil || len(got) > 0 {
			t.Errorf("%s: %d instances, %v", name, len(got), err)
		}
	}
}

// TestAFailedPartHarmsNoOther: if one part of the IDs fails, the others are still read.
func TestAFailedPartHarmsNoOther(t *testing.T) {
	f, c := newAccount(t)
	all := f.Launch(awstest.Launch{Count: 300, Subnet: f.AddNetwork("10.0.0.0/8", 18, false).Subnets[0]})
	slices.SortFunc(all, func(a, b awstest.Instance) int { return strings.Compare(a.ID, b.ID) })
	first := all[0].ID
	f.Inject(awstest.Fault{Action: describeInstances, When: func(call awstest.Call) bool {
		return slices.Contains(slices.Collect(maps.Values(call.Parameters())), first)
	}, Answer: &awstest.Error{Status: 400, Code: "InvalidParameterValue", Message: "refused by the test"}})
	got, err := c.Instances(t.Context(), idsOf(all))
	wantKind(t, err, cloud.Refused)
	if len(got) != 100 || got[idOf(all[299])].State != cloud.Running {
		t.Errorf("%d instances", len(got))
	}
}

// TestAFailedPageKeepsTheEarlierPages: if a page of the list by tag fails, the instances of
// the earlier pages count. The others are read by ID.
func TestAFailedPageKeepsTheEarlierPages(t *testing.T) {
	f, c := newAccount(t)
	c.many = 40 // on a loaded machine, a thousand take longer than the timeout of a try
	all := f.Launch(awstest.Launch{Count: 41, Tags: tagged})
	f.Set(func(s *awstest.Settings) { s.Page = 21 })
	byTag := func(call awstest.Call) bool { return strings.HasPrefix(call.Value("Filter.1.Name"), "tag") }
	f.Inject(awstest.Fault{Action: describeInstances, When: byTag, Pass: 1, Answer: &awstest.Error{Status: 400, Code: "InvalidParameterValue", Message: "refused by the test"}})
	got, err := c.read(t.Context(), idsOf(all))
	if err != nil || len(got) != 41 {
		t.Fatalf("%d instances, %v", len(got), err)
	}
	parts := 0
	for _, call := range f.Calls() {
		if !byTag(call) {
			parts++
		}
	}
	if parts != 1 {
		t.Errorf("%d calls for the 20 instances that no page showed", parts)
	}
}

// TestSlowPagesLeaveTimeForReadingByID: if the list by tag does not end, there is still time to
// read by ID.
func TestSlowPagesLeaveTimeForReadingByID(t *testing.T) {
	f, c := newAccount(t)
	f.Inject(awstest.Fault{Action: describeInstances, Hang: true})
	ctx := within(t, 6*time.Second)
	_, err := c.tagged(ctx)
	if wantKind(t, err, cloud.Unavailable); ctx.Err() != nil {
		t.Error("the pages used up all of the time")
	}
}

// TestADeniedReadBeginsNoFurtherPart: a denied request ends the read, because further parts
// would be denied, too.
func TestADeniedReadBeginsNoFurtherPart(t *testing.T) {
	f, c := newAccount(t)
	f.Inject(awstest.Fault{Action: describeInstances, Answer: awstest.Unauthorized})
	ids := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("i-%017x", i+1))
		}
		return all
	}
	_, err := c.Instances(t.Context(), ids(5000))
	if wantKind(t, err, cloud.Denied); f.Count(describeInstances) != 1 {
		t.Errorf("%d calls for 5,000 instances", f.Count(describeInstances))
	}
	f.Forget()
	_, err = c.parts(t.Context(), ids(5000), c.byID)
	if wantKind(t, err, cloud.Denied); f.Count(describeInstances) > mostReads {
		t.Errorf("%d calls for 25 parts", f.Count(describeInstances))
	}
}

func TestRetriesReads(t *testing.T) {
	for name, fault := range map[string]awstest.Fault{
		"throttled": {Answer: awstest.Throttled}, "internal": {Answer: awstest.Internal}, "reset": {Reset: true}, "half": {Half: true},
	} {
		f, c := newAccount(t)
		id := idOf(f.Launch(awstest.Launch{})[0])
		fault.Times = 2
		f.Inject(fault)
		got, err := c.Instances(within(t, 20*time.Second), []string{id})
		if err != nil || got[id].State != cloud.Running || f.Count(describeInstances) != 3 {
			t.Errorf("%s: %+v in %d calls, %v", name, got[id], f.Count(describeInstances), err)
		}
		failed := 0
		for call, n := range c.Calls() {
			if call.Outcome != "ok" {
				failed += n
			}
		}
		if failed != 2 {
			t.Errorf("%s: %v", name, c.Calls())
		}
		if slow := c.limiter.Scale(describeInstances) < 0.9; slow != (name == "throttled") {
			t.Errorf("%s: %v of the budget", name, c.limiter.Scale(describeInstances))
		}
	}
}

// TestNoErrorShowsTheCredentials: an error names the missing permission, but never shows the
// credentials.
func TestNoErrorShowsTheCredentials(t *testing.T) {
	f, c := newAccount(t)
	id := idOf(f.Launch(awstest.Launch{})[0])
	for _, e := range []*awstest.Error{awstest.Unauthorized, awstest.AuthFailure, awstest.ExpiredToken, {Status: 403, Code: "SignatureDoesNotMatch", Message: "AWS4-HMAC-SHA256 x-amz-security-token:hidden"}} {
		end := f.Inject(awstest.Fault{Answer: e})
		_, err := c.Instances(t.Context(), []string{id})
		end()
		wantKind(t, err, cloud.Denied)
		for _, secret := range []string{"hidden", "AKIA", "AWS4-HMAC"} {
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%v shows %s", err, secret)
			}
		}
	}
	f.ChangeKey(func(k *awstest.Key) { k.Denied = map[string]bool{describeInstances: true} })
	_, err := c.Instances(t.Context(), []string{id})
	if err == nil || !strings.Contains(err.Error(), "allow ec2:DescribeInstances in the IAM policy") || strings.Contains(err.Error(), "Encoded") {
		t.Errorf("%v", err)
	}
}

func TestFindsInstancesByTheirNames(t *testing.T) {
	f, c := newAccount(t)
	n, m := f.AddNetwork("10.0.0.0/16", 24, false), f.AddNetwork("10.0.0.0/16", 24, false)
	ours := f.Launch(awstest.Launch{Subnet: n.Subnets[0], Private: "10.0.0.7", Tags: tagged})[0]
	f.Launch(awstest.Launch{Subnet: m.Subnets[0], Private: "10.0.0.7"}) // of another cluster, with the same name
	twice := f.Launch(awstest.Launch{Subnet: n.Subnets[0], Private: "10.0.0.8", Tags: tagged})[0]
	other := f.Launch(awstest.Launch{Subnet: m.Subnets[0], Private: "10.0.0.8", Tags: tagged})[0]
	byID := f.Launch(awstest.Launch{Subnet: n.Subnets[0]})[0]
	gone := "i-0123456789abcdef0"
	names := []string{ours.Name, twice.Name, byID.ID + ".eu-central-1.compute.internal", byID.ID, gone, "ip-10-9-9-9.ec2.internal", "*", "ip-10-0-0-?"}
	got, err := c.Named(t.Context(), names)
	if err != nil || len(got) != len(names) {
		t.Fatalf("%v, %v", slices.Collect(maps.Keys(got)), err)
	}
	if i := got[ours.Name]; i.ID != ours.ID || i.State != cloud.Running {
		t.Errorf("%+v", i)
	}
	if why := got[twice.Name].Problem; !strings.Contains(why, twice.ID) || !strings.Contains(why, other.ID) || !strings.Contains(why, "--provider-id") {
		t.Errorf("%q", why)
	}
	if got[names[2]].ID != byID.ID || got[names[3]].ID != byID.ID {
		t.Errorf("%+v, %+v", got[names[2]], got[names[3]])
	}
	for _, name := range names[4:6] {
		if i := got[name]; i.State != cloud.Absent || i.Problem == "" {
			t.Errorf("%s: %+v", name, i)
		}
	}
	for _, name := range names[6:] {
		if i := got[name]; i.State != "" || !strings.Contains(i.Problem, "no host name") {
			t.Errorf("%s: %+v", name, i)
		}
	}
	if n := f.Count(describeInstances); n != 2 {
		t.Errorf("%d calls", n)
	}
	// In one VPC the name is unique.
	one := newClient(t, "[Global]\nVPC = "+n.VPC+"\n")
	if got, err := one.Named(t.Context(), []string{twice.Name}); err != nil || got[twice.Name].ID != twice.ID {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestALookupByNameServesThoseByID: after a lookup by name, a lookup by ID costs no second
// request.
func TestALookupByNameServesThoseByID(t *testing.T) {
	f, c := newAccount(t)
	all := f.Launch(awstest.Launch{Count: 3, Tags: tagged})
	if got, err := c.Named(t.Context(), []string{all[0].Name, all[1].Name}); err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	if got, err := c.Instances(t.Context(), idsOf(all[:2])); err != nil || got[idOf(all[1])].ID != all[1].ID || f.Counts()["DescribeInstances"] != 1 {
		t.Errorf("%v, %v, %v", got, err, f.Counts())
	}
	if got, err := c.Instances(t.Context(), idsOf(all)); err != nil || len(got) != 3 || f.Counts()["DescribeInstances"] != 2 {
		t.Errorf("%v, %v, %v", got, err, f.Counts())
	}
}

// TestCallersShareACall: controllers that read the same instances at once cost one request.
func TestCallersShareACall(t *testing.T) {
	f, c := newAccount(t)
	ids := idsOf(f.Launch(awstest.Launch{Count: 20}))
	var running sync.WaitGroup
	for range 5 {
		running.Go(func() {
			if got, err := c.Instances(t.Context(), ids); err != nil || len(got) != 20 {
				t.Errorf("%d instances, %v", len(got), err)
			}
		})
	}
	running.Wait()
	if n := f.Count(describeInstances); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// TestAHangingAPIIsNotWaitedFor: if the API hangs, a call ends at its deadline with an error.
func TestAHangingAPIIsNotWaitedFor(t *testing.T) {
	f, c := newAccount(t)
	id := idOf(f.Launch(awstest.Launch{})[0])
	f.Inject(awstest.Fault{Hang: true})
	began := time.Now()
	_, err := c.Instances(within(t, 300*time.Millisecond), []string{id})
	if wantKind(t, err, cloud.Unavailable); time.Since(began) > 5*time.Second {
		t.Errorf("after %s", time.Since(began))
	}
	_, err = c.Named(within(t, 300*time.Millisecond), []string{"ip-10-0-0-1.ec2.internal"})
	if wantKind(t, err, cloud.Unavailable); !strings.Contains(fmt.Sprint(err), "no answer in time") {
		t.Errorf("%v", err)
	}
}

// TestRepeatedPageTokenFails: if a page token comes twice, the pages would never end.
func TestRepeatedPageTokenFails(t *testing.T) {
	n := 0
	again := "again"
	err := pages(describeInstances, func() (*string, error) { n++; return &again, nil })
	if wantKind(t, err, cloud.Unavailable); n != 2 {
		t.Errorf("%d pages", n)
	}
	if err := pages(describeInstances, func() (*string, error) { return nil, nil }); err != nil {
		t.Error(err)
	}
	failed := errors.New("failed")
	if err := pages(describeInstances, func() (*string, error) { return &again, failed }); err != failed {
		t.Error(err)
	}
}
