package awstest

// actions are all actions that the server knows.
var actions map[string]action

// init breaks the cycle between the actions and what they call.
func init() {
	reads := func(run func(*request) error) action { return action{ec2Service, true, run} }
	writes := func(run func(*request) error) action { return action{ec2Service, false, run} }
	actions = map[string]action{
		"AssociateRouteTable":             writes(associateTable),
		"AttachNetworkInterface":          writes(attachInterface),
		"CreateNetworkInterface":          writes(createInterface),
		"CreateRoute":                     writes(createRoute),
		"CreateRouteTable":                writes(createTable),
		"CreateSubnet":                    writes(createSubnet),
		"CreateTags":                      writes(createTags),
		"CreateVpc":                       writes(createVPC),
		"DeleteNetworkInterface":          writes(deleteInterface),
		"DeleteRoute":                     writes(deleteRoute),
		"DeleteTags":                      writes(deleteTags),
		"DescribeAvailabilityZones":       reads(describeZones),
		"DescribeInstanceAttribute":       reads(describeInstanceAttribute),
		"DescribeInstanceTopology":        reads(describeTopology),
		"DescribeInstances":               reads(describeInstances),
		"DescribeNetworkInterfaces":       reads(describeInterfaces),
		"DescribeRouteTables":             reads(describeTables),
		"DescribeSubnets":                 reads(describeSubnets),
		"DescribeVpcs":                    reads(describeVPCs),
		"DetachNetworkInterface":          writes(detachInterface),
		"ModifyInstanceAttribute":         writes(modifyInstance),
		"ModifyNetworkInterfaceAttribute": writes(modifyInterface),
		"RebootInstances":                 writes(rebootInstances),
		"ReplaceRoute":                    writes(replaceRoute),
		"RunInstances":                    writes(runInstances),
		"StartInstances":                  writes(startInstances),
		"StopInstances":                   writes(stopInstances),
		"TerminateInstances":              writes(terminateInstances),

		"GetCallerIdentity": {stsService, true, getCallerIdentity},
	}
}
