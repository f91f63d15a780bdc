package awstest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

// fresh returns a server, and the world of its account.
func fresh(t *testing.T) (*awstest.Server, *world) {
	t.Helper()
	f := awstest.New(t)
	f.Setenv(t)
	w := newWorld(t)
	n := f.Default()
	w.ids["t"], w.ids["vpc"], w.ids["a"] = n.Main, n.VPC, n.Subnets[0]
	for i, made := range f.Launch(awstest.Launch{Count: 3}) {
		w.ids["i"+string(rune('1'+i))], w.ids["i"+string(rune('1'+i))+"/eni"] = made.ID, made.Interface
	}
	return f, w
}

// hasRoute reports whether the main table has a route.
func hasRoute(f *awstest.Server, to string) bool {
	for _, r := range f.Routes(f.Default().Main) {
		if r.Destination == to {
			return true
		}
	}
	return false
}

// A fault strikes what it is to strike, and a call that it struck is made or is not, as
// the fault says.
func TestFaults(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault awstest.Fault
		want  string // what the client is told; of an answer that is lost, its beginning
		made  bool
	}{
		{"an error", awstest.Fault{Answer: awstest.Internal}, "InternalError", false},
		{"throttled", awstest.Fault{Answer: awstest.Throttled}, "RequestLimitExceeded", false},
		{"revoked", awstest.Fault{Answer: awstest.AuthFailure}, "AuthFailure", false},
		{"expired", awstest.Fault{Answer: awstest.ExpiredToken}, "ExpiredToken", false},
		{"not allowed", awstest.Fault{Answer: awstest.Unauthorized}, "UnauthorizedOperation", false},
		{"reset before", awstest.Fault{Reset: true}, "no answer", false},
		{"reset after", awstest.Fault{Lose: true}, "no answer", true},
		{"half an answer", awstest.Fault{Half: true}, "HTTP 200", true},
		{"late", awstest.Fault{Delay: time.Millisecond}, "ok", true},
		{"nothing", awstest.Fault{}, "ok", true},
		{"another action", awstest.Fault{Action: "DeleteRoute", Reset: true}, "ok", true},
		{"not this one", awstest.Fault{Pass: 1, Reset: true}, "ok", true},
		{"not such a one", awstest.Fault{Reset: true, When: func(c awstest.Call) bool { return c.Value("DestinationCidrBlock") != "10.80.0.0/24" }}, "ok", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, w := fresh(t)
			if test.fault.Action == "" {
				test.fault.Action = "CreateRoute"
			}
			test.fault.Times = 1
			end := f.Inject(test.fault)
			if got := w.create("t", "10.80.0.0/24", "i1/eni"); !strings.HasPrefix(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if made := hasRoute(f, "10.80.0.0/24"); made != test.made {
				t.Errorf("made: %v", made)
			}
			if got := w.create("t", "10.80.1.0/24", "i1/eni"); test.fault.Pass == 0 && test.fault.When == nil && got != "ok" {
				t.Errorf("a second call: %s", got)
			}
			end()
			if got := w.create("t", "10.80.2.0/24", "i1/eni"); got != "ok" {
				t.Errorf("after its end: %s", got)
			}
		})
	}
}

// A call that hangs ends with the client's patience; whether it is carried out is the
// fault's to choose.
func TestHang(t *testing.T) {
	for _, done := range []bool{false, true} {
		f, w := fresh(t)
		f.Inject(awstest.Fault{Action: "CreateRoute", Hang: true, Done: done})
		ctx, cancel := context.WithCancel(w.ctx)
		w.ctx = ctx
		answer := make(chan string)
		go func() { answer <- w.create("t", "10.80.0.0/24", "i1/eni") }()
		waiting, stop := context.WithTimeout(context.Background(), time.Minute)
		if err := f.Wait(waiting, func() bool { return f.Count("CreateRoute") == 1 }); err != nil {
			t.Fatal(err)
		}
		stop()
		cancel()
		if got := <-answer; !strings.Contains(got, context.Canceled.Error()) {
			t.Errorf("got %q", got)
		}
		if hasRoute(f, "10.80.0.0/24") != done {
			t.Errorf("made: %v, want %v", !done, done)
		}
	}
}

func TestThrottling(t *testing.T) {
	f, w := fresh(t)
	f.Set(func(s *awstest.Settings) {
		s.Buckets = map[string]awstest.Bucket{"CreateRoute": {Size: 2, Rate: 0.001}}
	})
	for n, want := range []string{"ok", "ok", "RequestLimitExceeded", "RequestLimitExceeded"} {
		if got := w.create("t", []string{"10.80.0.0/24", "10.80.1.0/24", "10.80.2.0/24", "10.80.3.0/24"}[n], "i1/eni"); got != want {
			t.Errorf("call %d: %s, want %s", n+1, got, want)
		}
	}
	f.Advance(1001 * time.Second)
	if got := w.create("t", "10.80.2.0/24", "i1/eni"); got != "ok" {
		t.Errorf("after a refill: %s", got)
	}
	if got := w.deleteRoute("t", "10.80.2.0/24"); got != "ok" {
		t.Errorf("another action: %s", got)
	}
	calls := f.Calls()
	if last := calls[2]; last.Status != 503 || last.Code != "RequestLimitExceeded" || f.Count("CreateRoute") != 5 {
		t.Errorf("%v of %v", last, f.Counts())
	}
}

// An unfiltered read has a bucket of its own, as the published limits say.
func TestPublishedLimits(t *testing.T) {
	f, w := fresh(t)
	f.Set(func(s *awstest.Settings) {
		s.Buckets = awstest.Published()
		for action, b := range s.Buckets {
			s.Buckets[action] = awstest.Bucket{Size: b.Size} // without a refill, so that the test's speed does not matter
		}
	})
	count := func(in *ec2.DescribeInstancesInput) (n int) {
		for w.see(in) != "RequestLimitExceeded" {
			n++
		}
		return n
	}
	if n := count(&ec2.DescribeInstancesInput{}); n != 50 {
		t.Errorf("%d unfiltered calls", n)
	}
	if n := count(&ec2.DescribeInstancesInput{MaxResults: aws.Int32(1000)}); n != 100 {
		t.Errorf("%d paged calls", n)
	}
}

func TestQuota(t *testing.T) {
	f, w := fresh(t)
	f.Set(func(s *awstest.Settings) { s.RoutesPerTable = 3 }) // the local and the default one count
	c := servicequotas.New(servicequotas.Options{Region: awstest.Region, BaseEndpoint: &f.URL, Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: awstest.AccessKey, SecretAccessKey: awstest.SecretKey}, nil
	})})
	out, err := c.GetServiceQuota(w.ctx, &servicequotas.GetServiceQuotaInput{ServiceCode: aws.String("vpc"), QuotaCode: aws.String("L-93826ACB")})
	if err != nil || *out.Quota.Value != 3 {
		t.Fatalf("%v %v", out, err)
	}
	if _, err := c.GetServiceQuota(w.ctx, &servicequotas.GetServiceQuotaInput{ServiceCode: aws.String("vpc"), QuotaCode: aws.String("L-0")}); code(err) != "NoSuchResourceException" {
		t.Error(err)
	}
	for _, to := range []string{"10.80.0.0/24", "fd00:1::/64", "fd00:2::/64", "fd00:3::/64"} {
		if got := w.create("t", to, "i1/eni"); got != "ok" {
			t.Errorf("%s: %s", to, got)
		}
	}
	if got := w.create("t", "10.80.1.0/24", "i1/eni"); got != "RouteLimitExceeded" {
		t.Errorf("a fourth IPv4 route: %s", got)
	}
	if got := w.create("t", "fd00:5::/64", "i1/eni"); got != "RouteLimitExceeded" {
		t.Errorf("a fourth IPv6 route: %s", got)
	}
}

// What is new is not seen for a while, by describes alone or by writes, too.
func TestEventualConsistency(t *testing.T) {
	f, w := fresh(t)
	f.Set(func(s *awstest.Settings) { s.Lag = time.Hour })
	if got := w.launch("new", "a"); got != "pending" {
		t.Fatal(got)
	}
	see := func() string { return w.see(&ec2.DescribeInstancesInput{InstanceIds: []string{*w.id("new")}}) }
	if got := see(); got != "InvalidInstanceID.NotFound" {
		t.Errorf("seen at once: %s", got)
	}
	if got := w.create("t", "10.80.0.0/24", "new"); got != "ok" {
		t.Errorf("a write: %s", got)
	}
	if got := w.routes("t"); strings.Contains(got, "10.80.0.0/24") || got == "" {
		t.Errorf("the route is seen at once: %s", got)
	}
	f.Set(func(s *awstest.Settings) { s.LagWrites = true })
	if got := w.create("t", "10.80.1.0/24", "new"); got != "InvalidInstanceID.NotFound" {
		t.Errorf("a write that sees no more than a describe: %s", got)
	}
	f.Advance(time.Hour)
	if got := see(); got != "new running" {
		t.Errorf("later: %s", got)
	}
	if got := w.routes("t"); !strings.Contains(got, "10.80.0.0/24 new/eni active") {
		t.Errorf("later: %s", got)
	}
}

// A terminated instance stays visible for a while, and is not found after that.
func TestTerminatedInstancesVanish(t *testing.T) {
	f, w := fresh(t)
	id := *w.id("i1")
	f.Set(func(s *awstest.Settings) { s.Terminate, s.Visible = time.Minute, time.Hour })
	f.SetRoute(*w.id("t"), "10.80.0.0/24", id)
	f.Terminate(id)
	state := func() string {
		w.names[id] = "i1"
		return w.see(&ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	}
	route := func() string { return f.Routes(*w.id("t"))[2].State }
	if got := state() + " " + route(); got != "i1 shutting-down blackhole" {
		t.Error(got)
	}
	f.Advance(time.Minute)
	if got := state() + " " + route(); got != "i1 terminated blackhole" {
		t.Error(got)
	}
	f.Advance(time.Hour)
	if got := state() + " " + route(); got != "InvalidInstanceID.NotFound blackhole" {
		t.Error(got)
	}
	f.Vanish(*w.id("i2"))
	if got := w.see(&ec2.DescribeInstancesInput{InstanceIds: []string{*w.id("i2")}}); got != "InvalidInstanceID.NotFound" {
		t.Error(got)
	}
}

// Keys can be revoked, expire, and lack permissions; another account and another region
// have other objects.
func TestKeys(t *testing.T) {
	f, w := fresh(t)
	soon := f.Now().Add(time.Hour)
	all := func() string { return w.see(&ec2.DescribeInstancesInput{}) }
	for _, test := range []struct {
		change func(*awstest.Key)
		want   string
	}{
		{func(k *awstest.Key) { k.Refused = awstest.AuthFailure }, "AuthFailure"},
		{func(k *awstest.Key) { k.Refused = awstest.ExpiredToken }, "ExpiredToken"},
		{func(k *awstest.Key) { k.Refused = nil; k.Denied = map[string]bool{"DescribeInstances": true} }, "UnauthorizedOperation"},
		{func(k *awstest.Key) { k.Denied = nil; k.Expires = soon }, "i1 running; i2 running; i3 running"},
	} {
		for name, id := range w.ids {
			w.names[id] = name
		}
		f.ChangeKey(test.change)
		if got := all(); got != test.want {
			t.Errorf("got %s, want %s", got, test.want)
		}
	}
	f.Advance(2 * time.Hour)
	if got := all(); got != "RequestExpired" {
		t.Errorf("expired: %s", got)
	}
	f.ChangeKey(func(k *awstest.Key) { k.Expires = time.Time{} })

	t.Run("unknown", func(t *testing.T) {
		t.Setenv("AWS_ACCESS_KEY_ID", "AKIAUNKNOWN000000000")
		w := newWorld(t)
		if got := w.see(&ec2.DescribeInstancesInput{}); got != "AuthFailure" {
			t.Error(got)
		}
		if _, err := w.sts.GetCallerIdentity(w.ctx, &sts.GetCallerIdentityInput{}); code(err) != "InvalidClientTokenId" {
			t.Error(err)
		}
	})
	t.Run("another account", func(t *testing.T) {
		f.SetKey(awstest.Key{ID: "AKIAOTHER00000000000", Account: "210987654321"})
		t.Setenv("AWS_ACCESS_KEY_ID", "AKIAOTHER00000000000")
		if got := newWorld(t).see(&ec2.DescribeInstancesInput{}); got != "" {
			t.Error(got)
		}
	})
	t.Run("another region", func(t *testing.T) {
		t.Setenv("AWS_REGION", "us-east-1")
		if got := newWorld(t).see(&ec2.DescribeInstancesInput{}); got != "" {
			t.Error(got)
		}
	})
	t.Run("a role", func(t *testing.T) {
		w := newWorld(t)
		out, err := w.sts.AssumeRole(w.ctx, &sts.AssumeRoleInput{RoleArn: aws.String("arn:aws:iam::123456789012:role/nodes"), RoleSessionName: aws.String("n")})
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("AWS_ACCESS_KEY_ID", *out.Credentials.AccessKeyId)
		if got := newWorld(t).see(&ec2.DescribeInstancesInput{}); got != "AuthFailure" {
			t.Errorf("without its token: %s", got)
		}
		t.Setenv("AWS_SESSION_TOKEN", *out.Credentials.SessionToken)
		who, err := newWorld(t).sts.GetCallerIdentity(w.ctx, &sts.GetCallerIdentityInput{})
		if err != nil || *who.Arn != "arn:aws:sts::123456789012:assumed-role/nodes/n" {
			t.Error(who, err)
		}
		f.Advance(2 * time.Hour)
		if _, err := newWorld(t).sts.GetCallerIdentity(w.ctx, &sts.GetCallerIdentityInput{}); code(err) != "ExpiredToken" {
			t.Error(err)
		}
	})
	t.Run("a web identity", func(t *testing.T) {
		w := newWorld(t)
		out, err := w.sts.AssumeRoleWithWebIdentity(w.ctx, &sts.AssumeRoleWithWebIdentityInput{RoleArn: aws.String("arn:aws:iam::123456789012:role/r"), RoleSessionName: aws.String("n"), WebIdentityToken: aws.String("jwt")})
		if err != nil || *out.Credentials.SessionToken == "" {
			t.Error(out, err)
		}
	})
}

// crowd returns a server with so many instances, each with a route in one table.
func crowd(t testing.TB, size int) (*awstest.Server, awstest.Network) {
	f := awstest.New(t)
	f.Setenv(t)
	f.Set(func(s *awstest.Settings) { s.RoutesPerTable = size + 1 })
	n := f.AddNetwork("10.0.0.0/16", 18, false)
	for i, one := range f.Launch(awstest.Launch{Count: size, Subnet: n.Subnets[0]}) {
		f.SetRoute(n.Main, fmt.Sprintf("100.%d.%d.0/24", 64+i/256, i%256), one.Interface)
	}
	return f, n
}

// Pages of 1,000 hold every instance once, and a table all of its routes.
func TestCrowd(t *testing.T) {
	const size = 2500
	_, n := crowd(t, size)
	w := newWorld(t)
	if got := paged(w, 1000, filterOf("vpc-id", n.VPC)); got != "[1000 1000 500] 2500" {
		t.Error(got)
	}
	out, err := w.ec2.DescribeRouteTables(w.ctx, &ec2.DescribeRouteTablesInput{RouteTableIds: []string{n.Main}})
	if err != nil || len(out.RouteTables[0].Routes) != size+1 {
		t.Fatal(err)
	}
}

// BenchmarkPage measures the server alone: a page of 1,000 of 5,000 instances, and a table
// of 5,000 routes.
func BenchmarkPage(b *testing.B) {
	f, n := crowd(b, 5000)
	for _, c := range [][]string{
		{"DescribeInstances", "MaxResults", "1000", "Filter.1.Name", "vpc-id", "Filter.1.Value.1", n.VPC},
		{"DescribeRouteTables", "RouteTableId.1", n.Main},
	} {
		b.Run(c[0], func(b *testing.B) {
			for b.Loop() {
				if _, err := f.Do(c[0], c[1:]...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A connection that is lost after RunInstances is retried with the same client token:
// one instance is made.
func TestRetriesAreIdempotent(t *testing.T) {
	f, w := fresh(t)
	f.Inject(awstest.Fault{Action: "RunInstances", Times: 2, Lose: true})
	in := &ec2.RunInstancesInput{ImageId: aws.String("ami-1"), MinCount: aws.Int32(1), MaxCount: aws.Int32(1)}
	if _, err := w.ec2.RunInstances(w.ctx, in, func(o *ec2.Options) { o.RetryMaxAttempts = 3 }); err != nil {
		t.Fatal(err)
	}
	if n := len(f.Instances()); n != 4 || f.Count("RunInstances") != 3 {
		t.Errorf("%d instances, calls %v", n, f.Counts())
	}
}

func TestWaitEnds(t *testing.T) {
	f := awstest.New(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := f.Wait(ctx, func() bool { return false }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
