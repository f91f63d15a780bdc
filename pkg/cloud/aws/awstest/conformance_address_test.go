package awstest_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func (w *world) allocate(name string) string {
	out, err := w.ec2.AllocateAddress(w.ctx, &ec2.AllocateAddressInput{Domain: types.DomainTypeVpc})
	return said(err, func() string { w.call(name, out.AllocationId); return "ok" })
}

// giveAddress gives an address to an interface, and calls the association ADDRESS/at.
func (w *world) giveAddress(address, nic string, change func(*ec2.AssociateAddressInput)) string {
	in := &ec2.AssociateAddressInput{AllocationId: w.id(address), NetworkInterfaceId: w.id(nic)}
	if change != nil {
		change(in)
	}
	out, err := w.ec2.AssociateAddress(w.ctx, in)
	return said(err, func() string { w.call(address+"/at", out.AssociationId); return "ok" })
}

// where returns the interface that has an address.
func (w *world) where(address string) string {
	out, err := w.ec2.DescribeAddresses(w.ctx, &ec2.DescribeAddressesInput{AllocationIds: w.idsOf(address)})
	return said(err, func() string {
		a := out.Addresses[0]
		if a.AssociationId == nil || *a.AssociationId == "" {
			return "free"
		}
		return w.plain(aws.ToString(a.NetworkInterfaceId))
	})
}

var addresses = scenario{"elastic addresses", []row{
	{name: "a VPC", want: "ok", do: vpcForBalancers},
	{name: "instances", want: "pending pending", do: func(w *world) string { return w.launch("i1", "a") + " " + w.launch("i2", "a") }},
	{name: "addresses", want: "ok ok", do: func(w *world) string { return w.allocate("e1") + " " + w.allocate("e2") }},
	{name: "given to an interface", want: "ok", do: func(w *world) string { return w.giveAddress("e1", "i1/eni", nil) }},
	{name: "where it is", want: "i1/eni", do: func(w *world) string { return w.where("e1") }},
	{name: "given to another one, unless it is in use", want: "Resource.AlreadyAssociated", do: func(w *world) string {
		return w.giveAddress("e1", "i2/eni", func(in *ec2.AssociateAddressInput) { in.AllowReassociation = aws.Bool(false) })
	}},
	{name: "given to another one", moto: "Resource.AlreadyAssociated", want: "ok", do: func(w *world) string { return w.giveAddress("e1", "i2/eni", nil) }},
	{name: "where it is then", moto: "i1/eni", want: "i2/eni", do: func(w *world) string { return w.where("e1") }},
	{name: "to no interface", want: "MissingParameter", do: func(w *world) string {
		return w.giveAddress("e2", "i2/eni", func(in *ec2.AssociateAddressInput) { in.NetworkInterfaceId = nil })
	}},
	{name: "an address that there is not", want: "InvalidAllocationID.NotFound", do: func(w *world) string {
		w.ids["no"] = "eipalloc-0123456789abcdef0"
		return w.giveAddress("no", "i2/eni", nil)
	}},
	{name: "released in use", moto: "ok", want: "InvalidIPAddress.InUse", do: func(w *world) string {
		_, err := w.ec2.ReleaseAddress(w.ctx, &ec2.ReleaseAddressInput{AllocationId: w.id("e1")})
		if err == nil && w.allocate("e1") != "ok" {
			return "gone"
		}
		return ok(err)
	}},
	{name: "taken back", moto: "InvalidAssociationID.NotFound", want: "ok", do: func(w *world) string {
		_, err := w.ec2.DisassociateAddress(w.ctx, &ec2.DisassociateAddressInput{AssociationId: w.id("e1/at")})
		return ok(err)
	}},
	{name: "taken back twice", want: "InvalidAssociationID.NotFound", do: func(w *world) string {
		_, err := w.ec2.DisassociateAddress(w.ctx, &ec2.DisassociateAddressInput{AssociationId: w.id("e1/at")})
		return ok(err)
	}},
	{name: "where it is in the end", want: "free", do: func(w *world) string { return w.where("e1") }},
	{name: "tags of two kinds", want: "i1 Name=i1, i2 Name=i2", do: func(w *world) string {
		if _, err := w.ec2.CreateTags(w.ctx, &ec2.CreateTagsInput{Resources: w.idsOf("a", "e2"), Tags: []types.Tag{{Key: aws.String("owner"), Value: aws.String("tulle")}}}); err != nil {
			return code(err)
		}
		return w.tagsBy(filterOf("key", "Name"))
	}},
	{name: "tags by value", want: "a owner=tulle, e2 owner=tulle", do: func(w *world) string { return w.tagsBy(filterOf("value", "tulle")) }},
	{name: "tags of one kind", want: "a owner=tulle", do: func(w *world) string {
		return w.tagsBy(filterOf("resource-type", "subnet"), filterOf("key", "owner"))
	}},
	{name: "tags of one object", want: "e2 owner=tulle", do: func(w *world) string { return w.tagsBy(filterOf("resource-id", *w.id("e2"))) }},
}}

// tagsBy returns the tags that filters select.
func (w *world) tagsBy(filters ...types.Filter) string {
	out, err := w.ec2.DescribeTags(w.ctx, &ec2.DescribeTagsInput{Filters: filters})
	return said(err, func() string {
		var all []string
		for _, t := range out.Tags {
			all = append(all, fmt.Sprint(w.plain(*t.ResourceId), " ", *t.Key, "=", *t.Value))
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	})
}
