//go:build kube

package controllertest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// cloudAccount is an AWS account with a cluster's instances and its only route table.
// awstest or moto serves it.
type cloudAccount struct {
	kind        string
	env         []string
	url         string
	vpc, subnet string
	table       string
	settings    string // further lines of [Global] in the cloud config
	homes       []home
	// counts returns the calls so far, by action.
	counts func() map[string]int
	// routes returns the instances of the table's routes, by destination.
	routes func() (map[string]string, error)
	fake   *awstest.Server // nil on moto
}

// home is the instance of a cluster's Node.
type home struct{ id, zone, name string }

const (
	fakeKind = "awstest"
	motoKind = "moto"
)

// fakeAccount returns an account of awstest, whose calls take some time each.
func fakeAccount(t testing.TB, instances int, latency time.Duration) *cloudAccount {
	t.Helper()
	s := awstest.New(t)
	n := s.Default()
	s.Set(func(to *awstest.Settings) {
		to.Latency = map[string]time.Duration{"": latency}
		to.RoutesPerTable = max(to.RoutesPerTable, instances+10)
	})
	s.Tag(n.Main, prod)
	a := &cloudAccount{kind: fakeKind, env: s.Env(), url: s.URL, vpc: n.VPC, subnet: n.Subnets[0], table: n.Main, counts: s.Counts, fake: s}
	for i, subnet := range n.Subnets {
		count := (instances + len(n.Subnets) - 1 - i) / len(n.Subnets)
		if count == 0 {
			continue
		}
		for _, i := range s.Launch(awstest.Launch{Count: count, Subnet: subnet, Tags: prod}) {
			a.homes = append(a.homes, home{i.ID, i.Zone, i.Name})
		}
	}
	a.routes = func() (map[string]string, error) {
		all := make(map[string]string)
		for _, r := range s.Routes(a.table) {
			all[r.Destination] = r.Instance
		}
		return all, nil
	}
	return a
}

// motoAccount returns the account of a moto_server, behind a proxy that counts calls.
func motoAccount(t testing.TB, instances int) *cloudAccount {
	t.Helper()
	direct := startMoto(t)
	c := &counter{to: direct, calls: make(map[string]int)}
	proxy := httptest.NewServer(c)
	t.Cleanup(proxy.Close)
	a := &cloudAccount{kind: motoKind, url: proxy.URL, counts: c.counts, env: []string{
		"AWS_ENDPOINT_URL=" + proxy.URL, "AWS_ACCESS_KEY_ID=" + awstest.AccessKey, "AWS_SECRET_ACCESS_KEY=" + awstest.SecretKey, "AWS_SESSION_TOKEN=",
		"AWS_REGION=" + awstest.Region, "AWS_EC2_METADATA_DISABLED=true", "AWS_CA_BUNDLE=", "AWS_PROFILE=",
		"AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null",
	}}
	api := ec2.New(ec2.Options{Region: awstest.Region, BaseEndpoint: aws.String(direct.String()), Credentials: credentials.NewStaticCredentialsProvider(awstest.AccessKey, awstest.SecretKey, "")})
	tags := []types.Tag{{Key: aws.String("kubernetes.io/cluster/prod"), Value: aws.String("owned")}}
	made, err := api.RunInstances(t.Context(), &ec2.RunInstancesInput{
		ImageId: aws.String("ami-12c6146b"), MinCount: aws.Int32(int32(instances)), MaxCount: aws.Int32(int32(instances)),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: tags}},
	})
	if err != nil {
		t.Fatal(err)
	}
	instanceOf := make(map[string]string) // moto's routes do not name the interface's instance
	for _, i := range made.Instances {
		instanceOf[*i.NetworkInterfaces[0].NetworkInterfaceId] = *i.InstanceId
		a.vpc, a.subnet = *i.VpcId, *i.SubnetId
		a.homes = append(a.homes, home{*i.InstanceId, *i.Placement.AvailabilityZone, *i.PrivateDnsName})
	}
	table, err := api.CreateRouteTable(t.Context(), &ec2.CreateRouteTableInput{
		VpcId: &a.vpc, TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeRouteTable, Tags: tags}},
	})
	if err != nil {
		t.Fatal(err)
	}
	a.table = *table.RouteTable.RouteTableId
	a.routes = func() (map[string]string, error) {
		out, err := api.DescribeRouteTables(t.Context(), &ec2.DescribeRouteTablesInput{RouteTableIds: []string{a.table}})
		if err != nil {
			return nil, err
		}
		all := make(map[string]string)
		for _, r := range out.RouteTables[0].Routes {
			all[aws.ToString(r.DestinationCidrBlock)] = cmp.Or(aws.ToString(r.InstanceId), instanceOf[aws.ToString(r.NetworkInterfaceId)])
		}
		return all, nil
	}
	return a
}

// startMoto runs a moto_server until the test ends.
func startMoto(t testing.TB) *url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().(*net.TCPAddr)
	l.Close()
	p := kerneltest.Launch(t, "", nil, "moto_server", "-H", "127.0.0.1", "-p", fmt.Sprint(address.Port))
	t.Cleanup(func() { p.End(syscall.SIGKILL) })
	at := &url.URL{Scheme: "http", Host: address.String()}
	kerneltest.Eventually(t, patience, func() error {
		a, err := http.Get(at.JoinPath("moto-api", "data.json").String())
		if err == nil {
			a.Body.Close()
		}
		return err
	})
	return at
}

// hasMoto reports whether moto_server is on this machine.
func hasMoto() bool {
	_, err := exec.LookPath("moto_server")
	return err == nil
}

// counter is a proxy that counts requests to AWS by action. It answers the request for
// the quota of routes itself: moto returns the quota of 2015, which has no room for 50
// Nodes in addition to the table's local route.
type counter struct {
	to *url.URL

	mu    sync.Mutex
	calls map[string]int
}

func (c *counter) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.calls)
}

// ServeHTTP implements http.Handler. The query protocol has the action in the body, and
// the JSON protocol has it in a header.
func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, action, isJSON := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if !isJSON {
		form, _ := url.ParseQuery(string(body)) // a body that is not a form has no action
		action = form.Get("Action")
	}
	c.mu.Lock()
	c.calls[action]++
	c.mu.Unlock()
	if action == "GetServiceQuota" && bytes.Contains(body, []byte("L-93826ACB")) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		fmt.Fprint(w, `{"Quota":{"ServiceCode":"vpc","QuotaCode":"L-93826ACB","Value":500}}`)
		return
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	httputil.NewSingleHostReverseProxy(c.to).ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
}
