package awstest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// world is a server as the SDK's clients see it, and names for the IDs that it gave out.
type world struct {
	t     *testing.T
	ctx   context.Context
	ec2   *ec2.Client
	sts   *sts.Client
	elb   *elb.Client
	ids   map[string]string
	names map[string]string
}

// newWorld returns the world of the server that the environment leads to. Its clients
// retry nothing.
func newWorld(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	c, err := config.LoadDefaultConfig(ctx, config.WithRetryMaxAttempts(1))
	if err != nil {
		t.Fatal(err)
	}
	if c.BaseEndpoint == nil && os.Getenv("AWS_ENDPOINT_URL") == "" {
		t.Fatal("no endpoint is set: this would call AWS")
	}
	return &world{t: t, ctx: ctx,
		ec2: ec2.NewFromConfig(c, func(o *ec2.Options) { o.HTTPClient = patient{o.HTTPClient} }),
		sts: sts.NewFromConfig(c, func(o *sts.Options) { o.HTTPClient = patient{o.HTTPClient} }),
		elb: elb.NewFromConfig(c, func(o *elb.Options) { o.HTTPClient = patient{o.HTTPClient} }),
		ids: make(map[string]string), names: make(map[string]string)}
}

// patient hides from net/http that the SDK's bodies can write themselves. They return
// io.EOF after they are closed, which the SDK does as soon as an answer begins. If
// net/http then has yet to find the body's end, it closes the connection.
type patient struct{ http ec2.HTTPClient }

func (p patient) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return p.http.Do(r)
}

// call names an ID, and returns it.
func (w *world) call(name string, id *string) string {
	if id == nil {
		w.t.Fatalf("%s has no ID", name)
	}
	w.ids[name], w.names[*id] = *id, name
	return *id
}

// id returns a pointer to the ID of a name.
func (w *world) id(name string) *string {
	id, ok := w.ids[name]
	if !ok {
		w.t.Fatalf("nothing is called %q", name)
	}
	return aws.String(id)
}

var (
	anyID  = regexp.MustCompile(`\b[a-z]+(?:-[a-z]+)*-[0-9a-f]{17}\b`)
	anyARN = regexp.MustCompile(`\barn:aws:elasticloadbalancing:[a-zA-Z0-9:/-]+`)
)

// plain replaces the IDs in a text by their names.
func (w *world) plain(text string) string {
	text = anyARN.ReplaceAllStringFunc(text, func(arn string) string {
		if name, ok := w.names[arn]; ok {
			return name
		}
		return "arn?"
	})
	return anyID.ReplaceAllStringFunc(text, func(id string) string {
		if name, ok := w.names[id]; ok {
			return name
		}
		return id[:strings.LastIndex(id, "-")] + "-?"
	})
}

// code returns the API's code of an error, "" for none.
func code(err error) string {
	if err == nil {
		return ""
	}
	if refused := smithy.APIError(nil); errors.As(err, &refused) {
		return refused.ErrorCode()
	}
	if answer := (*smithyhttp.ResponseError)(nil); errors.As(err, &answer) && answer.HTTPStatusCode() != 0 {
		return fmt.Sprint("HTTP ", answer.HTTPStatusCode())
	}
	return "no answer: " + err.Error()
}

// said returns the code of an error, or what a successful call has to show.
func said(err error, show func() string) string {
	if err != nil {
		return code(err)
	}
	return show()
}

// ok is what a call that succeeds and has nothing to show says.
func ok(err error) string { return said(err, func() string { return "ok" }) }

func filterOf(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}

func tagsOf(kind types.ResourceType, pairs ...string) []types.TagSpecification {
	s := types.TagSpecification{ResourceType: kind}
	for i := 0; i+1 < len(pairs); i += 2 {
		s.Tags = append(s.Tags, types.Tag{Key: &pairs[i], Value: &pairs[i+1]})
	}
	return []types.TagSpecification{s}
}

// vpc makes a VPC called "vpc".
func (w *world) vpc(name, cidr string) string {
	out, err := w.ec2.CreateVpc(w.ctx, &ec2.CreateVpcInput{CidrBlock: &cidr})
	return said(err, func() string { w.call(name, out.Vpc.VpcId); return "ok" })
}

func (w *world) subnet(name, vpc, cidr, zone string) string {
	in := &ec2.CreateSubnetInput{VpcId: w.id(vpc), CidrBlock: &cidr}
	if zone != "" {
		in.AvailabilityZone = &zone
	}
	out, err := w.ec2.CreateSubnet(w.ctx, in)
	return said(err, func() string { w.call(name, out.Subnet.SubnetId); return "ok" })
}

func (w *world) table(name, vpc string, tags ...string) string {
	in := &ec2.CreateRouteTableInput{VpcId: w.id(vpc)}
	if len(tags) > 0 {
		in.TagSpecifications = tagsOf(types.ResourceTypeRouteTable, tags...)
	}
	out, err := w.ec2.CreateRouteTable(w.ctx, in)
	return said(err, func() string { w.call(name, out.RouteTable.RouteTableId); return "ok" })
}

// launch launches an instance, whose interface it calls NAME/eni.
func (w *world) launch(name, subnet string) string {
	return w.launchAs(name, subnet, types.InstanceTypeM5Large)
}

func (w *world) launchAs(name, subnet string, kind types.InstanceType) string {
	out, err := w.ec2.RunInstances(w.ctx, &ec2.RunInstancesInput{
		ImageId: aws.String("ami-12c6146b"), InstanceType: kind, MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		SubnetId: w.id(subnet), TagSpecifications: tagsOf(types.ResourceTypeInstance, "Name", name),
	})
	return said(err, func() string {
		i := out.Instances[0]
		w.call(name, i.InstanceId)
		w.call(name+"/eni", i.NetworkInterfaces[0].NetworkInterfaceId)
		return string(i.State.Name)
	})
}

// routes returns the routes of a table: destination, target, state, origin.
func (w *world) routes(table string) string {
	out, err := w.ec2.DescribeRouteTables(w.ctx, &ec2.DescribeRouteTablesInput{RouteTableIds: []string{*w.id(table)}})
	return said(err, func() string {
		var all []string
		for _, r := range out.RouteTables[0].Routes {
			to := aws.ToString(r.DestinationCidrBlock) + aws.ToString(r.DestinationIpv6CidrBlock) + aws.ToString(r.DestinationPrefixListId)
			via := aws.ToString(r.GatewayId) + aws.ToString(r.NatGatewayId) + aws.ToString(r.NetworkInterfaceId) + aws.ToString(r.EgressOnlyInternetGatewayId)
			all = append(all, fmt.Sprintf("%s %s %s %s", to, w.plain(via), r.State, r.Origin))
		}
		slices.Sort(all)
		return strings.Join(all, "; ")
	})
}
