package aws

import (
	"context"
	"net/netip"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// specs returns the tags of a creation for each type of object that it creates.
func specs(x NetworkChange, kinds ...types.ResourceType) (all []types.TagSpecification) {
	if len(x.Step.Tags) == 0 {
		return nil
	}
	for _, kind := range kinds {
		all = append(all, types.TagSpecification{ResourceType: kind, Tags: ec2Tags(x.Step.Tags)})
	}
	return all
}

// one validates the ID of a new object.
func one(action, prefix string, id *string) (Made, error) {
	return Made{ID: value(id)}, ids(action, value(id), prefix, "ID of the new object")
}

// textOf returns an address block as a parameter, or nil.
func textOf(p netip.Prefix) *string {
	if !p.IsValid() {
		return nil
	}
	return aws.String(p.String())
}

func createNetworkVPC(c *Client, ctx context.Context, x NetworkChange) (Made, error) {
	o, err := as[awsnet.VPC](createVPC, x)
	if err != nil {
		return Made{}, err
	}
	out, err := create(ctx, c, createVPC, func(ctx context.Context) (*ec2.CreateVpcOutput, error) {
		return c.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: textOf(o.IPv4), TagSpecifications: specs(x, types.ResourceTypeVpc)})
	})
	if err != nil {
		return Made{}, err
	}
	return one(createVPC, "vpc", value(out.Vpc).VpcId)
}

// associateNetworkBlock adds a block to a VPC. The answer may lack a block that Amazon
// chooses.
func associateNetworkBlock(c *Client, ctx context.Context, x NetworkChange) (Made, error) {
	o, err := as[awsnet.Block](associateVPCBlock, x)
	if err != nil {
		return Made{}, err
	}
	in := &ec2.AssociateVpcCidrBlockInput{VpcId: &o.VPC.ID}
	switch o.Pool {
	case "":
		in.CidrBlock = textOf(o.Prefix)
	case awsnet.AmazonPool:
		in.AmazonProvidedIpv6CidrBlock = aws.Bool(true)
	default:
		in.Ipv6Pool, in.Ipv6CidrBlock = &o.Pool, textOf(o.Prefix)
	}
	out, err := create(ctx, c, associateVPCBlock, func(ctx context.Context) (*ec2.AssociateVpcCidrBlockOutput, error) {
		return c.ec2.AssociateVpcCidrBlock(ctx, in)
	})
	if err != nil {
		return Made{}, err
	}
	var made Made
	if b := out.CidrBlockAssociation; b != nil {
		made.ID = value(b.AssociationId)
	} else if b := out.Ipv6CidrBlockAssociation; b != nil {
		made.ID = value(b.AssociationId)
		if made.Given.Block, err = prefixOf(associateVPCBlock, value(b.Ipv6CidrBlock)); err != nil {
			return Made{}, err
		}
	}
	if !isObject(made.ID) {
		return Made{}, strange(associateVPCBlock, "association", made.ID)
	}
	return made, nil
}

func createNetworkGateway(c *Client, ctx context.Context, x NetworkChange) (Made, error) {
	out, err := create(ctx, c, createGateway, func(ctx context.Context) (*ec2.CreateInternetGatewayOutput, error) {
		return c.ec2.CreateInternetGateway(ctx, &ec2.CreateInternetGatewayInput{TagSpecifications: specs(x, types.ResourceTypeInternetGateway)})
	})
	if err != nil {
		return Made{}, err
	}
	return one(createGateway, "igw", value(out.InternetGateway).InternetGatewayId)
}

func createNetworkEgress(c *Client, ctx context.Context, x NetworkChange) (Made, error) {
	o, err := as[awsnet.EgressGateway](createEgress, x)
	if err != nil {
		return Made{}, err
	}
	id, err := c.withToken(tokenOf(x), func(token *string) (string, bool, error) {
		out, err := create(ctx, c, createEgress, func(ctx context.Context) (*ec2.CreateEgressOnlyInternetGatewayOutput, error) {
			return c.ec2.CreateEgressOnlyInternetGateway(ctx, &ec2.CreateEgressOnlyInternetGatewayInput{
				VpcId: &o.VPC.ID, ClientToken: token, TagSpecifications: specs(x, types.ResourceTypeEgressOnlyInternetGateway),
			})
		})
		if err != nil {
			return "", false, err
		}
		return value(value(out.EgressOnlyInternetGateway).EgressOnlyInternetGatewayId), false, nil
	})
	if err != nil {
		return Made{}, err
	}
	return one(createEgress, "eigw", &id)
}

func createNetworkCarrier(c *Client, ctx context.Context, x NetworkChange) (Made, error) {
	o, err := as[awsnet.CarrierGateway](createCarrier, x)
	if err != nil {
		return Made{}, err
	}
	id, err := c.withToken(tokenOf(x), func(token *string) (string, bool, error) {
		out, err := create(ctx, c, createCarrier, func(ctx context.Context) (*ec2.CreateCarrierGatewayOutput, error) {
			return c.ec2.CreateCarrierGateway(ctx, &ec2.CreateCarrierGatewayInput{VpcId: &o.VPC.ID, ClientToken: token, TagSpecifications: specs(x, types.ResourceTypeCarrierGateway)})
		})
		if err != nil {
			return "", false, err
		}
		g := value(out.CarrierGateway)
		return value(g.CarrierGatewayId), g.State == types.CarrierGatewayStateDeleted || g.State == types.CarrierGatewayStateDeleting, nil
	})
	if err != nil {
		return Made{}, err
	}
	return one(createCarrier, "cagw", &id)
}

func createNetworkSubnet(c *Client, ctx context.Context, x NetworkChange) (Made, error) {
	o, err := as[awsnet.Subnet](createSubnet, x)
	if err != nil {
		return Made{}, err
	}
	in := &ec2.CreateSubnetInput{
		VpcId: &o.VPC.ID, AvailabilityZone: &o.Zone, CidrBlock: textOf(o.IPv4), Ipv6CidrBlock: textOf(o.IPv6.Prefix), TagSpecifications: specs(x, types.ResourceTypeSubnet),
	}
	if !o.IPv4.IsValid() {
		in.Ipv6Native = aws.Bool(true)
	}
	out, err := create(ctx, c, createSubnet, func(ctx context.Context) (*ec2.CreateSubnetOutput, error) { return c.ec2.CreateSubnet(ctx, in) })
	if err != nil {
		return Made{}, err
	}
	return one(createSubnet, "subnet", value(out.Subnet).SubnetId)
}

func allocateNetworkAddress(c *Client, ctx context.Context, x NetworkChange) (Made, error) {
	o, err := as[awsnet.Address](allocateAddress, x)
	if err != nil {
		return Made{}, err
	}
	out, err := create(ctx, c, allocateAddress, func(ctx context.Context) (*ec2.AllocateAddressOutput, error) {
		return c.ec2.AllocateAddress(ctx, &ec2.AllocateAddressInput{Domain: types.DomainTypeVpc, PublicIpv4Pool: optional(o.Pool), TagSpecifications: specs(x, types.ResourceTypeElasticIp)})
	})
	if err != nil {
		return Made{}, err
	}
	made, err := one(allocateAddress, "eipalloc", out.AllocationId)
	if err != nil {
		return Made{}, err
	}
	made.Given.Address, err = addressOf(allocateAddress, value(out.PublicIp))
	return made, err
}

func createNetworkNAT(c *Client, ctx context.Context, x NetworkChange) (Made, error) {
	o, err := as[awsnet.NATGateway](createNAT, x)
	if err != nil {
		return Made{}, err
	}
	var made awsnet.Found
	_, err = c.withToken(tokenOf(x), func(token *string) (string, bool, error) {
		out, err := create(ctx, c, createNAT, func(ctx context.Context) (*ec2.CreateNatGatewayOutput, error) {
			return c.ec2.CreateNatGateway(ctx, &ec2.CreateNatGatewayInput{SubnetId: &o.Subnet.ID, AllocationId: &o.Address.ID, ClientToken: token, TagSpecifications: specs(x, types.ResourceTypeNatgateway)})
		})
		if err != nil {
			return "", false, err
		}
		g := value(out.NatGateway)
		made, err = natOf(g)
		return made.ID, g.State == types.NatGatewayStateDeleted || g.State == types.NatGatewayStateDeleting || g.State == types.NatGatewayStateFailed, err
	})
	return Made{ID: made.ID, Given: made.Given}, err
}

func createNetworkTable(c *Client, ctx context.Context, x NetworkChange) (Made, error) {
	o, err := as[awsnet.RouteTable](createTable, x)
	if err != nil {
		return Made{}, err
	}
	id, err := c.withToken(tokenOf(x), func(token *string) (string, bool, error) {
		out, err := create(ctx, c, createTable, func(ctx context.Context) (*ec2.CreateRouteTableOutput, error) {
			return c.ec2.CreateRouteTable(ctx, &ec2.CreateRouteTableInput{VpcId: &o.VPC.ID, ClientToken: token, TagSpecifications: specs(x, types.ResourceTypeRouteTable)})
		})
		if err != nil {
			return "", false, err
		}
		return value(value(out.RouteTable).RouteTableId), false, nil
	})
	if err != nil {
		return Made{}, err
	}
	return one(createTable, "rtb", &id)
}

func associateNetworkTable(c *Client, ctx context.Context, x NetworkChange) (Made, error) {
	o, err := as[awsnet.Association](associateTable, x)
	if err != nil {
		return Made{}, err
	}
	out, err := create(ctx, c, associateTable, func(ctx context.Context) (*ec2.AssociateRouteTableOutput, error) {
		return c.ec2.AssociateRouteTable(ctx, &ec2.AssociateRouteTableInput{SubnetId: &o.Subnet.ID, RouteTableId: &o.Table.ID})
	})
	if err != nil {
		return Made{}, err
	}
	return one(associateTable, "rtbassoc", out.AssociationId)
}

// replaceNetworkAssociation replaces a subnet's table. The association then has another
// ID.
func replaceNetworkAssociation(c *Client, ctx context.Context, x NetworkChange) (Made, error) {
	o, err := as[awsnet.Association](replaceAssociation, x)
	if err != nil {
		return Made{}, err
	}
	out, err := create(ctx, c, replaceAssociation, func(ctx context.Context) (*ec2.ReplaceRouteTableAssociationOutput, error) {
		return c.ec2.ReplaceRouteTableAssociation(ctx, &ec2.ReplaceRouteTableAssociationInput{AssociationId: &x.ID, RouteTableId: &o.Table.ID})
	})
	if err != nil {
		return Made{}, err
	}
	return one(replaceAssociation, "rtbassoc", out.NewAssociationId)
}

func createNetworkEndpoint(c *Client, ctx context.Context, x NetworkChange) (Made, error) {
	o, err := as[awsnet.Endpoint](createEndpoint, x)
	if err != nil {
		return Made{}, err
	}
	var tables []string
	for _, r := range o.Tables.All() {
		tables = append(tables, r.ID)
	}
	id, err := c.withToken(tokenOf(x), func(token *string) (string, bool, error) {
		out, err := create(ctx, c, createEndpoint, func(ctx context.Context) (*ec2.CreateVpcEndpointOutput, error) {
			return c.ec2.CreateVpcEndpoint(ctx, &ec2.CreateVpcEndpointInput{
				VpcId: &o.VPC.ID, ServiceName: aws.String("com.amazonaws." + c.region + "." + o.Service), VpcEndpointType: types.VpcEndpointTypeGateway,
				RouteTableIds: tables, ClientToken: token, TagSpecifications: specs(x, types.ResourceTypeVpcEndpoint),
			})
		})
		if err != nil {
			return "", false, err
		}
		f, there, err := endpointOf(value(out.VpcEndpoint))
		return f.ID, !there || f.State == awsnet.Deleting, err
	})
	if err != nil {
		return Made{}, err
	}
	return one(createEndpoint, "vpce", &id)
}

func createNetworkGroup(c *Client, ctx context.Context, x NetworkChange) (Made, error) {
	o, err := as[awsnet.SecurityGroup](createSecurityGroup, x)
	if err != nil {
		return Made{}, err
	}
	out, err := create(ctx, c, createSecurityGroup, func(ctx context.Context) (*ec2.CreateSecurityGroupOutput, error) {
		return c.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{GroupName: &o.Title, Description: &o.Description, VpcId: &o.VPC.ID, TagSpecifications: specs(x, types.ResourceTypeSecurityGroup)})
	})
	if err != nil {
		return Made{}, err
	}
	return one(createSecurityGroup, "sg", out.GroupId)
}

// createNetworkBastion launches the bastion, with a public address and session tokens for
// its metadata.
func createNetworkBastion(c *Client, ctx context.Context, x NetworkChange) (Made, error) {
	o, err := as[awsnet.Bastion](runInstances, x)
	if err != nil {
		return Made{}, err
	}
	var made awsnet.Found
	_, err = c.withToken(tokenOf(x), func(token *string) (string, bool, error) {
		out, err := create(ctx, c, runInstances, func(ctx context.Context) (*ec2.RunInstancesOutput, error) {
			return c.ec2.RunInstances(ctx, &ec2.RunInstancesInput{
				ImageId: &o.Image, InstanceType: types.InstanceType(o.Type), KeyName: optional(o.SSHKey), MinCount: aws.Int32(1), MaxCount: aws.Int32(1), ClientToken: token,
				NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{{
					DeviceIndex: aws.Int32(0), SubnetId: &o.Subnet.ID, Groups: []string{o.Group.ID}, AssociatePublicIpAddress: aws.Bool(true),
				}},
				MetadataOptions:   &types.InstanceMetadataOptionsRequest{HttpTokens: types.HttpTokensStateRequired, HttpEndpoint: types.InstanceMetadataEndpointStateEnabled},
				TagSpecifications: specs(x, types.ResourceTypeInstance),
			})
		})
		if err != nil {
			return "", false, err
		}
		if len(out.Instances) != 1 {
			return "", false, strange(runInstances, "number of instances that is not 1 for", o.Image)
		}
		var there bool
		made, there, err = bastionOf(out.Instances[0])
		return made.ID, !there || made.State == awsnet.Deleting, err
	})
	return Made{ID: made.ID, Given: made.Given}, err
}
