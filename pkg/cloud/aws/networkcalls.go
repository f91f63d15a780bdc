package aws

import (
	"context"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// The calls that change networks, except those that other files already name.
const (
	createVPC           = "CreateVpc"
	modifyVPC           = "ModifyVpcAttribute"
	deleteVPC           = "DeleteVpc"
	associateVPCBlock   = "AssociateVpcCidrBlock"
	disassociateBlock   = "DisassociateVpcCidrBlock"
	createGateway       = "CreateInternetGateway"
	attachGateway       = "AttachInternetGateway"
	detachGateway       = "DetachInternetGateway"
	deleteGateway       = "DeleteInternetGateway"
	createEgress        = "CreateEgressOnlyInternetGateway"
	deleteEgress        = "DeleteEgressOnlyInternetGateway"
	createCarrier       = "CreateCarrierGateway"
	deleteCarrier       = "DeleteCarrierGateway"
	createSubnet        = "CreateSubnet"
	modifySubnet        = "ModifySubnetAttribute"
	associateSubnet     = "AssociateSubnetCidrBlock"
	deleteSubnet        = "DeleteSubnet"
	allocateAddress     = "AllocateAddress"
	releaseAddress      = "ReleaseAddress"
	createNAT           = "CreateNatGateway"
	deleteNAT           = "DeleteNatGateway"
	createTable         = "CreateRouteTable"
	deleteTable         = "DeleteRouteTable"
	associateTable      = "AssociateRouteTable"
	replaceAssociation  = "ReplaceRouteTableAssociation"
	disassociateTable   = "DisassociateRouteTable"
	createEndpoint      = "CreateVpcEndpoint"
	modifyEndpoint      = "ModifyVpcEndpoint"
	deleteEndpoints     = "DeleteVpcEndpoints"
	authorizeEgress     = "AuthorizeSecurityGroupEgress"
	revokeEgress        = "RevokeSecurityGroupEgress"
	describeEgressRules = "UpdateSecurityGroupRuleDescriptionsEgress"
	runInstances        = "RunInstances"
	terminateInstances  = "TerminateInstances"
	deleteTags          = "DeleteTags"
)

// networkCalls are the functions that make the calls, by action.
var networkCalls = map[string]func(*Client, context.Context, awsnet.Call, []NetworkChange) ([]Made, error){
	createVPC: createsOne(createNetworkVPC), createGateway: createsOne(createNetworkGateway), createEgress: createsOne(createNetworkEgress),
	createCarrier: createsOne(createNetworkCarrier), createSubnet: createsOne(createNetworkSubnet), allocateAddress: createsOne(allocateNetworkAddress),
	createNAT: createsOne(createNetworkNAT), createTable: createsOne(createNetworkTable), createEndpoint: createsOne(createNetworkEndpoint),
	createSecurityGroup: createsOne(createNetworkGroup), runInstances: createsOne(createNetworkBastion), associateVPCBlock: createsOne(associateNetworkBlock),
	associateTable: createsOne(associateNetworkTable), replaceAssociation: createsOne(replaceNetworkAssociation), createRoute: createsOne(createNetworkRoute),
	createBalancer: createsOne(createNetworkBalancer), createTargetGroup: createsOne(createNetworkTargetGroup), createListener: createsOne(createNetworkListener),

	modifyVPC: changesOne(modifyNetworkVPC), attachGateway: changesOne(attachNetworkGateway), modifySubnet: changesOne(modifyNetworkSubnet),
	associateSubnet: changesOne(associateNetworkSubnet), replaceRoute: changesOne(replaceNetworkRoute), modifyEndpoint: changesOne(modifyNetworkEndpoint),
	setSubnets: changesOne(changeNetworkBalancer), setFamilies: changesOne(changeNetworkBalancer), setSecurity: changesOne(changeNetworkBalancer),
	setBalancerAttributes: changesOne(changeNetworkBalancer), modifyTargetGroup: changesOne(changeNetworkTargetGroup), setGroupAttributes: changesOne(changeNetworkTargetGroup),
	modifyListener: changesOne(changeNetworkListener), createTags: changesOne(tagNetwork), addTags: changesOne(tagNetwork),

	authorizeIngress: addRules, authorizeEgress: addRules, revokeIngress: removeRules, revokeEgress: removeRules,
	describeIngress: describeNetworkRules, describeEgressRules: describeNetworkRules,

	deleteVPC: changesOne(deleteFromEC2), disassociateBlock: changesOne(deleteFromEC2), detachGateway: changesOne(deleteFromEC2), deleteGateway: changesOne(deleteFromEC2),
	deleteEgress: changesOne(deleteFromEC2), deleteCarrier: changesOne(deleteFromEC2), deleteSubnet: changesOne(deleteFromEC2), releaseAddress: changesOne(deleteFromEC2),
	deleteNAT: changesOne(deleteFromEC2), deleteTable: changesOne(deleteFromEC2), deleteRoute: changesOne(deleteFromEC2), disassociateTable: changesOne(deleteFromEC2),
	deleteEndpoints: changesOne(deleteFromEC2), deleteSecurityGroup: changesOne(deleteFromEC2), terminateInstances: changesOne(deleteFromEC2), deleteTags: changesOne(deleteFromEC2),
	deleteBalancer: changesOne(deleteFromELB), deleteTargetGroup: changesOne(deleteFromELB), deleteListener: changesOne(deleteFromELB),
}

// deletes are the calls that delete an object.
var deletes = map[string]bool{
	deleteVPC: true, disassociateBlock: true, detachGateway: true, deleteGateway: true, deleteEgress: true, deleteCarrier: true, deleteSubnet: true,
	releaseAddress: true, deleteNAT: true, deleteTable: true, deleteRoute: true, disassociateTable: true, deleteEndpoints: true, deleteSecurityGroup: true,
	terminateInstances: true, deleteTags: true, deleteBalancer: true, deleteTargetGroup: true, deleteListener: true, revokeIngress: true, revokeEgress: true,
}

// manyAtOnce are the calls that can change several rules of a group.
var manyAtOnce = map[string]bool{
	authorizeIngress: true, authorizeEgress: true, revokeIngress: true, revokeEgress: true, describeIngress: true, describeEgressRules: true,
}

// createsOne returns the function of a call that creates one object.
func createsOne(create func(*Client, context.Context, NetworkChange) (Made, error)) func(*Client, context.Context, awsnet.Call, []NetworkChange) ([]Made, error) {
	return func(c *Client, ctx context.Context, _ awsnet.Call, all []NetworkChange) ([]Made, error) {
		made, err := create(c, ctx, all[0])
		return []Made{made}, err
	}
}

// changesOne returns the function of a call that changes or deletes one object.
func changesOne(change func(*Client, context.Context, awsnet.Call, NetworkChange) error) func(*Client, context.Context, awsnet.Call, []NetworkChange) ([]Made, error) {
	return func(c *Client, ctx context.Context, call awsnet.Call, all []NetworkChange) ([]Made, error) {
		return nil, change(c, ctx, call, all[0])
	}
}

// as returns the object of a change with its type. If it has another type, the caller
// made an error.
func as[T awsnet.Object](action string, x NetworkChange) (T, error) {
	o, ok := x.Object.(T)
	if !ok {
		return o, badCall(awsnet.Call{Action: action}, "the object of the change is "+x.Object.Key().String())
	}
	return o, nil
}
