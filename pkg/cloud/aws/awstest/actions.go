package awstest

// operation identifies an action: services may have actions with the same name.
type operation struct{ service, name string }

// actions are all actions that the server knows.
var actions map[operation]action

// init breaks the initialization cycle between actions and the functions that they call.
func init() {
	actions = make(map[operation]action)
	reads := func(run func(*request) error) action { return action{true, run} }
	writes := func(run func(*request) error) action { return action{false, run} }
	add := func(service string, all map[string]action) {
		for name, a := range all {
			actions[operation{service, name}] = a
		}
	}
	add(ec2Service, map[string]action{
		"AllocateAddress":                            writes(allocateAddress),
		"AssociateAddress":                           writes(associateAddress),
		"AssociateSubnetCidrBlock":                   writes(associateSubnetBlock),
		"AssociateVpcCidrBlock":                      writes(associateVPCBlock),
		"CreateEgressOnlyInternetGateway":            writes(createEgress),
		"CreateVpcEndpoint":                          writes(createEndpoint),
		"DeleteEgressOnlyInternetGateway":            writes(deleteEgress),
		"DeleteVpcEndpoints":                         writes(deleteEndpoints),
		"DescribeEgressOnlyInternetGateways":         reads(describeEgresses),
		"DescribeTags":                               reads(describeTags),
		"DescribeVpcAttribute":                       reads(describeVPCAttribute),
		"DescribeCarrierGateways":                    reads(describeCarriers),
		"DescribeVpcEndpoints":                       reads(describeEndpoints),
		"DisassociateAddress":                        writes(disassociateAddress),
		"DisassociateSubnetCidrBlock":                writes(disassociateSubnetBlock),
		"DisassociateVpcCidrBlock":                   writes(disassociateVPCBlock),
		"ModifySecurityGroupRules":                   writes(modifyRules),
		"ModifySubnetAttribute":                      writes(modifySubnet),
		"ModifyVpcAttribute":                         writes(modifyVPC),
		"ModifyVpcEndpoint":                          writes(modifyEndpoint),
		"ReplaceRouteTableAssociation":               writes(replaceAssociation),
		"UpdateSecurityGroupRuleDescriptionsEgress":  writes(describeAs(true)),
		"UpdateSecurityGroupRuleDescriptionsIngress": writes(describeAs(false)),
		"AssociateRouteTable":                        writes(associateTable),
		"CreateNatGateway":                           writes(createNAT),
		"DeleteNatGateway":                           writes(deleteNAT),
		"DescribeAddresses":                          reads(describeAddresses),
		"DescribeNatGateways":                        reads(describeNATs),
		"ReleaseAddress":                             writes(releaseAddress),
		"AttachInternetGateway":                      writes(attachGateway),
		"AttachNetworkInterface":                     writes(attachInterface),
		"CreateInternetGateway":                      writes(createGateway),
		"DeleteInternetGateway":                      writes(deleteGateway),
		"DescribeInternetGateways":                   reads(describeGateways),
		"DetachInternetGateway":                      writes(detachGateway),
		"CreateNetworkInterface":                     writes(createInterface),
		"CreateRoute":                                writes(createRoute),
		"CreateRouteTable":                           writes(createTable),
		"CreateSubnet":                               writes(createSubnet),
		"AuthorizeSecurityGroupEgress":               writes(authorize(true)),
		"AuthorizeSecurityGroupIngress":              writes(authorize(false)),
		"CreateSecurityGroup":                        writes(createGroup),
		"DeleteRouteTable":                           writes(deleteTable),
		"DeleteSecurityGroup":                        writes(deleteGroup),
		"DeleteSubnet":                               writes(deleteSubnet),
		"DeleteVpc":                                  writes(deleteVPC),
		"DescribeSecurityGroupRules":                 reads(describeRules),
		"DescribeSecurityGroups":                     reads(describeGroups),
		"DisassociateRouteTable":                     writes(disassociateTable),
		"RevokeSecurityGroupEgress":                  writes(revoke(true)),
		"RevokeSecurityGroupIngress":                 writes(revoke(false)),
		"CreateTags":                                 writes(createTags),
		"CreateVpc":                                  writes(createVPC),
		"DeleteNetworkInterface":                     writes(deleteInterface),
		"DeleteRoute":                                writes(deleteRoute),
		"DeleteTags":                                 writes(deleteTags),
		"DescribeAvailabilityZones":                  reads(describeZones),
		"DescribeInstanceAttribute":                  reads(describeInstanceAttribute),
		"DescribeInstanceTopology":                   reads(describeTopology),
		"DescribeInstances":                          reads(describeInstances),
		"DescribeNetworkInterfaces":                  reads(describeInterfaces),
		"DescribeRouteTables":                        reads(describeTables),
		"DescribeSubnets":                            reads(describeSubnets),
		"DescribeVpcs":                               reads(describeVPCs),
		"DetachNetworkInterface":                     writes(detachInterface),
		"ModifyInstanceAttribute":                    writes(modifyInstance),
		"ModifyNetworkInterfaceAttribute":            writes(modifyInterface),
		"RebootInstances":                            writes(rebootInstances),
		"ReplaceRoute":                               writes(replaceRoute),
		"RunInstances":                               writes(runInstances),
		"StartInstances":                             writes(startInstances),
		"StopInstances":                              writes(stopInstances),
		"TerminateInstances":                         writes(terminateInstances),
	})
	add(elbService, map[string]action{
		"AddTags":                        writes(addELBTags),
		"CreateListener":                 writes(createListener),
		"CreateLoadBalancer":             writes(createBalancer),
		"CreateTargetGroup":              writes(createTargetGroup),
		"DeleteListener":                 writes(deleteListener),
		"DeleteLoadBalancer":             writes(deleteBalancer),
		"DeleteTargetGroup":              writes(deleteTargetGroup),
		"DeregisterTargets":              writes(deregisterTargets),
		"DescribeAccountLimits":          reads(describeLimits),
		"DescribeListenerAttributes":     reads(describeListenerAttributes),
		"DescribeListeners":              reads(describeListeners),
		"DescribeLoadBalancerAttributes": reads(describeBalancerAttributes),
		"DescribeLoadBalancers":          reads(describeBalancers),
		"DescribeTags":                   reads(describeELBTags),
		"DescribeTargetGroupAttributes":  reads(describeTargetGroupAttributes),
		"DescribeTargetGroups":           reads(describeTargetGroups),
		"DescribeTargetHealth":           reads(describeTargetHealth),
		"ModifyListener":                 writes(modifyListener),
		"ModifyListenerAttributes":       writes(modifyListenerAttributes),
		"ModifyLoadBalancerAttributes":   writes(modifyBalancerAttributes),
		"ModifyTargetGroup":              writes(modifyTargetGroup),
		"ModifyTargetGroupAttributes":    writes(modifyTargetGroupAttributes),
		"RegisterTargets":                writes(registerTargets),
		"RemoveTags":                     writes(removeELBTags),
		"SetIpAddressType":               writes(setFamily),
		"SetSecurityGroups":              writes(setGroups),
		"SetSubnets":                     writes(setSubnets),
	})
	add(stsService, map[string]action{
		"AssumeRole":                reads(assumeRole),
		"AssumeRoleWithWebIdentity": reads(assumeRole),
		"GetCallerIdentity":         reads(getCallerIdentity),
	})
	add(quotasService, map[string]action{
		"GetServiceQuota": reads(getServiceQuota),
	})
}
