package awstest_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// see returns the instances that a describe shows, as name and state, sorted.
func (w *world) see(in *ec2.DescribeInstancesInput) string {
	var all []string
	p := ec2.NewDescribeInstancesPaginator(w.ec2, in)
	for p.HasMorePages() {
		out, err := p.NextPage(w.ctx)
		if err != nil {
			return code(err)
		}
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				all = append(all, w.plain(*i.InstanceId)+" "+string(i.State.Name))
			}
		}
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

func instancesBy(name string, value func(*world) string) func(*world) string {
	return func(w *world) string {
		return w.see(&ec2.DescribeInstancesInput{Filters: []types.Filter{filterOf(name, value(w)), filterOf("tag-key", "Name")}})
	}
}

func text(v string) func(*world) string { return func(*world) string { return v } }

var instances = scenario{"instances", []row{
	{name: "a VPC", want: "ok", do: func(w *world) string { return w.vpc("vpc", "10.0.0.0/16") }},
	{name: "a subnet", want: "ok", do: func(w *world) string { return w.subnet("a", "vpc", "10.0.0.0/24", "eu-central-1b") }},
	{name: "an instance", want: "pending", do: func(w *world) string { return w.launch("i1", "a") }},
	{name: "a second one", want: "pending", do: func(w *world) string { return w.launch("i2", "a") }},
	{name: "both", want: "i1 running; i2 running", do: func(w *world) string {
		return w.see(&ec2.DescribeInstancesInput{InstanceIds: []string{*w.id("i1"), *w.id("i2")}})
	}},
	{name: "one that there is not", want: "InvalidInstanceID.NotFound", do: func(w *world) string {
		return w.see(&ec2.DescribeInstancesInput{InstanceIds: []string{*w.id("i1"), "i-0123456789abcdef0"}})
	}},
	{name: "one that there is not, by filter", want: "i1 running", do: func(w *world) string {
		return w.see(&ec2.DescribeInstancesInput{Filters: []types.Filter{filterOf("instance-id", *w.id("i1"), "i-0123456789abcdef0")}})
	}},
	{name: "no ID", moto: "InvalidInstanceID.NotFound", want: "InvalidInstanceID.Malformed", do: func(w *world) string {
		return w.see(&ec2.DescribeInstancesInput{InstanceIds: []string{"i1"}})
	}},
	{name: "by VPC", want: "i1 running; i2 running", do: instancesBy("vpc-id", func(w *world) string { return *w.id("vpc") })},
	{name: "by tag", want: "i2 running", do: instancesBy("tag:Name", text("i2"))},
	{name: "by state", want: "", do: instancesBy("instance-state-name", text("stopped"))},
	{name: "its network", want: "vpc a eu-central-1b true i1/eni in-use", do: func(w *world) string {
		out, err := w.ec2.DescribeInstances(w.ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{*w.id("i1")}})
		return said(err, func() string {
			i := out.Reservations[0].Instances[0]
			n := i.NetworkInterfaces[0]
			return w.plain(strings.Join([]string{*i.VpcId, *i.SubnetId, *i.Placement.AvailabilityZone, fmt.Sprint(*i.SourceDestCheck), *n.NetworkInterfaceId, string(n.Status)}, " "))
		})
	}},
	{name: "by private address", want: "i1 running", do: func(w *world) string {
		out, err := w.ec2.DescribeInstances(w.ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{*w.id("i1")}})
		if err != nil {
			return code(err)
		}
		i := out.Reservations[0].Instances[0]
		want := "ip-" + strings.ReplaceAll(*i.PrivateIpAddress, ".", "-") + ".eu-central-1.compute.internal"
		if *i.PrivateDnsName != want {
			return *i.PrivateDnsName + " is not " + want
		}
		if by := w.see(&ec2.DescribeInstancesInput{Filters: []types.Filter{filterOf("private-dns-name", want)}}); by != "i1 running" {
			return "by name: " + by
		}
		return w.see(&ec2.DescribeInstancesInput{Filters: []types.Filter{filterOf("private-ip-address", *i.PrivateIpAddress), filterOf("vpc-id", *w.id("vpc"))}})
	}},
	{name: "the check off", moto: "false true", want: "false false", do: func(w *world) string {
		_, err := w.ec2.ModifyInstanceAttribute(w.ctx, &ec2.ModifyInstanceAttributeInput{InstanceId: w.id("i1"), SourceDestCheck: &types.AttributeBooleanValue{Value: aws.Bool(false)}})
		if err != nil {
			return code(err)
		}
		return w.checks("i1")
	}},
	{name: "the check off, of an interface", moto: "true false", want: "false false", do: func(w *world) string {
		_, err := w.ec2.ModifyNetworkInterfaceAttribute(w.ctx, &ec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: w.id("i2/eni"), SourceDestCheck: &types.AttributeBooleanValue{Value: aws.Bool(false)}})
		if err != nil {
			return code(err)
		}
		return w.checks("i2")
	}},
	{name: "the check of no instance", want: "InvalidInstanceID.NotFound", do: func(w *world) string {
		_, err := w.ec2.ModifyInstanceAttribute(w.ctx, &ec2.ModifyInstanceAttributeInput{InstanceId: aws.String("i-0123456789abcdef0"), SourceDestCheck: &types.AttributeBooleanValue{Value: aws.Bool(false)}})
		return ok(err)
	}},
	{name: "the check of no interface", want: "InvalidNetworkInterfaceID.NotFound", do: func(w *world) string {
		_, err := w.ec2.ModifyNetworkInterfaceAttribute(w.ctx, &ec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: aws.String("eni-0123456789abcdef0"), SourceDestCheck: &types.AttributeBooleanValue{Value: aws.Bool(false)}})
		return ok(err)
	}},
	{name: "the interface as it is described", want: "i1/eni i1 vpc a in-use", do: func(w *world) string {
		out, err := w.ec2.DescribeNetworkInterfaces(w.ctx, &ec2.DescribeNetworkInterfacesInput{Filters: []types.Filter{filterOf("attachment.instance-id", *w.id("i1"))}})
		return said(err, func() string {
			n := out.NetworkInterfaces[0]
			return w.plain(fmt.Sprint(*n.NetworkInterfaceId, " ", *n.Attachment.InstanceId, " ", *n.VpcId, " ", *n.SubnetId, " ", n.Status))
		})
	}},
	{name: "stopped", want: "running stopping", do: func(w *world) string {
		out, err := w.ec2.StopInstances(w.ctx, &ec2.StopInstancesInput{InstanceIds: []string{*w.id("i1")}})
		return said(err, func() string {
			return string(out.StoppingInstances[0].PreviousState.Name) + " " + string(out.StoppingInstances[0].CurrentState.Name)
		})
	}},
	{name: "then", want: "i1 stopped", do: instancesBy("instance-state-name", text("stopped"))},
	{name: "started", want: "stopped pending", do: func(w *world) string {
		out, err := w.ec2.StartInstances(w.ctx, &ec2.StartInstancesInput{InstanceIds: []string{*w.id("i1")}})
		return said(err, func() string {
			return string(out.StartingInstances[0].PreviousState.Name) + " " + string(out.StartingInstances[0].CurrentState.Name)
		})
	}},
	{name: "terminated", want: "running shutting-down", do: func(w *world) string {
		out, err := w.ec2.TerminateInstances(w.ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{*w.id("i1")}})
		return said(err, func() string {
			return string(out.TerminatingInstances[0].PreviousState.Name) + " " + string(out.TerminatingInstances[0].CurrentState.Name)
		})
	}},
	{name: "still visible", want: "i1 terminated", do: func(w *world) string {
		return w.see(&ec2.DescribeInstancesInput{InstanceIds: []string{*w.id("i1")}})
	}},
	{name: "in no VPC any more", moto: "i1 terminated; i2 running", want: "i2 running", do: instancesBy("vpc-id", func(w *world) string { return *w.id("vpc") })},
	{name: "its interface is gone", moto: "ok", want: "InvalidNetworkInterfaceID.NotFound", do: func(w *world) string {
		_, err := w.ec2.DescribeNetworkInterfaces(w.ctx, &ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{*w.id("i1/eni")}})
		return ok(err)
	}},
	{name: "a terminated one is not started", moto: "ok", want: "IncorrectInstanceState", do: func(w *world) string {
		_, err := w.ec2.StartInstances(w.ctx, &ec2.StartInstancesInput{InstanceIds: []string{*w.id("i1")}})
		return ok(err)
	}},
	{name: "terminated twice", want: "ok", do: func(w *world) string {
		_, err := w.ec2.TerminateInstances(w.ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{*w.id("i1")}})
		return ok(err)
	}},
	{name: "terminating none", want: "InvalidInstanceID.NotFound", do: func(w *world) string {
		_, err := w.ec2.TerminateInstances(w.ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{"i-0123456789abcdef0"}})
		return ok(err)
	}},
	{name: "the same client token", moto: "other", want: "same", do: func(w *world) string {
		in := &ec2.RunInstancesInput{ImageId: aws.String("ami-12c6146b"), MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: w.id("a"), ClientToken: aws.String("run-1")}
		first, err := w.ec2.RunInstances(w.ctx, in)
		if err != nil {
			return code(err)
		}
		second, err := w.ec2.RunInstances(w.ctx, in)
		return said(err, func() string {
			if *first.Instances[0].InstanceId == *second.Instances[0].InstanceId {
				return "same"
			}
			return "other"
		})
	}},
}}

// checks returns the SourceDestCheck of an instance and of its interface.
func (w *world) checks(name string) string {
	out, err := w.ec2.DescribeInstances(w.ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{*w.id(name)}})
	return said(err, func() string {
		i := out.Reservations[0].Instances[0]
		return fmt.Sprint(*i.SourceDestCheck, " ", *i.NetworkInterfaces[0].SourceDestCheck)
	})
}

// paged returns the sizes of a describe's pages.
func paged(w *world, size int32, filters ...types.Filter) string {
	var sizes []int
	p := ec2.NewDescribeInstancesPaginator(w.ec2, &ec2.DescribeInstancesInput{MaxResults: &size, Filters: filters})
	seen := make(map[string]bool)
	for p.HasMorePages() {
		out, err := p.NextPage(w.ctx)
		if err != nil {
			return code(err)
		}
		n := 0
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				n++
				seen[*i.InstanceId] = true
			}
		}
		sizes = append(sizes, n)
	}
	return fmt.Sprint(sizes, " ", len(seen))
}

var describing = scenario{"pages", []row{
	{name: "a VPC", want: "ok", do: func(w *world) string { return w.vpc("vpc", "10.0.0.0/16") }},
	{name: "a subnet", want: "ok", do: func(w *world) string { return w.subnet("a", "vpc", "10.0.0.0/20", "") }},
	{name: "twelve instances", want: "12", do: func(w *world) string {
		out, err := w.ec2.RunInstances(w.ctx, &ec2.RunInstancesInput{ImageId: aws.String("ami-12c6146b"), MinCount: aws.Int32(12), MaxCount: aws.Int32(12), SubnetId: w.id("a")})
		return said(err, func() string { return fmt.Sprint(len(out.Instances)) })
	}},
	{name: "in pages of five", moto: "[12] 12", want: "[5 5 2] 12", do: func(w *world) string { return paged(w, 5, filterOf("vpc-id", *w.id("vpc"))) }},
	{name: "in one page", want: "[12] 12", do: func(w *world) string { return paged(w, 1000, filterOf("vpc-id", *w.id("vpc"))) }},
	{name: "a page too small", moto: "[12] 12", want: "InvalidParameterValue", do: func(w *world) string { return paged(w, 4) }},
	{name: "a page too large", moto: "[12] 12", want: "InvalidParameterValue", do: func(w *world) string { return paged(w, 1001) }},
	{name: "a page and IDs", want: "InvalidParameterCombination", do: func(w *world) string {
		return w.see(&ec2.DescribeInstancesInput{MaxResults: aws.Int32(5), InstanceIds: []string{"i-0123456789abcdef0"}})
	}},
	{name: "eight tables", want: "ok", do: func(w *world) string {
		for n := range 8 {
			if said := w.table(fmt.Sprint("t", n), "vpc"); said != "ok" {
				return said
			}
		}
		return "ok"
	}},
	{name: "in pages of five", moto: "[9]", want: "[5 4]", do: func(w *world) string {
		var sizes []int
		p := ec2.NewDescribeRouteTablesPaginator(w.ec2, &ec2.DescribeRouteTablesInput{MaxResults: aws.Int32(5), Filters: []types.Filter{filterOf("vpc-id", *w.id("vpc"))}})
		for p.HasMorePages() {
			out, err := p.NextPage(w.ctx)
			if err != nil {
				return code(err)
			}
			sizes = append(sizes, len(out.RouteTables))
		}
		return fmt.Sprint(sizes)
	}},
}}

// topology returns the network nodes of instances, as the number of layers and whether the top
// one is shared.
func (w *world) topology(names ...string) string {
	var ids []string
	for _, name := range names {
		ids = append(ids, *w.id(name))
	}
	out, err := w.ec2.DescribeInstanceTopology(w.ctx, &ec2.DescribeInstanceTopologyInput{InstanceIds: ids})
	return said(err, func() string {
		var all []string
		for _, i := range out.Instances {
			all = append(all, fmt.Sprintf("%s %s %d %t", w.plain(*i.InstanceId), *i.InstanceType, len(i.NetworkNodes), i.NetworkNodes[0] == out.Instances[0].NetworkNodes[0]))
		}
		slices.Sort(all)
		return strings.Join(all, "; ")
	})
}

// motoLacks is moto's answer to an action that it does not have.
const motoLacks = "HTTP 500"

var placing = scenario{"topology", []row{
	{name: "a VPC", want: "ok", do: func(w *world) string { return w.vpc("vpc", "10.0.0.0/16") }},
	{name: "a subnet", want: "ok", do: func(w *world) string { return w.subnet("a", "vpc", "10.0.0.0/24", "eu-central-1b") }},
	{name: "an instance", want: "pending", do: func(w *world) string { return w.launch("i1", "a") }},
	{name: "one for machine learning", want: "pending", do: func(w *world) string { return w.launchAs("i2", "a", types.InstanceTypeP548xlarge) }},
	{name: "a second one", want: "pending", do: func(w *world) string { return w.launchAs("i3", "a", types.InstanceTypeTrn132xlarge) }},
	{name: "of a type without layers", moto: motoLacks, want: "", do: func(w *world) string { return w.topology("i1") }},
	{name: "of all", moto: motoLacks, want: "i2 p5.48xlarge 3 true; i3 trn1.32xlarge 3 true", do: func(w *world) string { return w.topology("i1", "i2", "i3") }},
	{name: "of one that there is not", moto: motoLacks, want: "InvalidInstanceID.NotFound", do: func(w *world) string {
		_, err := w.ec2.DescribeInstanceTopology(w.ctx, &ec2.DescribeInstanceTopologyInput{InstanceIds: []string{*w.id("i2"), "i-0123456789abcdef0"}})
		return code(err)
	}},
	{name: "of too many", moto: motoLacks, want: "InvalidParameterValue", do: func(w *world) string {
		_, err := w.ec2.DescribeInstanceTopology(w.ctx, &ec2.DescribeInstanceTopologyInput{InstanceIds: slices.Repeat([]string{*w.id("i2")}, 101)})
		return code(err)
	}},
	{name: "stopped", want: "running stopping", do: func(w *world) string {
		out, err := w.ec2.StopInstances(w.ctx, &ec2.StopInstancesInput{InstanceIds: []string{*w.id("i2")}})
		return said(err, func() string {
			s := out.StoppingInstances[0]
			return fmt.Sprintf("%s %s", s.PreviousState.Name, s.CurrentState.Name)
		})
	}},
	{name: "of a stopped one", moto: motoLacks, want: "i3 trn1.32xlarge 3 true", do: func(w *world) string { return w.topology("i2", "i3") }},
}}
