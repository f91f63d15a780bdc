// Package awsnet decides what a cluster's network on AWS is like, and which calls of AWS's
// API make it so. It is pure: no SDK, no Kubernetes, no clock and no network.
//
// ParseFile and ParseObject read a Spec, in the words of Cluster API's AWSCluster. Check
// returns all problems of a Spec before the first call, and Complete the Network that the
// Spec means: the same Spec and zones always give the same subnets. Desired returns the
// objects of a Network. An Account is what a complete reading of AWS found, and a Plan is
// what is left to do: a graph of steps.
//
// Everything that AWS can tag has the tags of its Owner from the call that creates it: the
// tag of Cluster API's AWS provider for the cluster, with the value owned, and the cluster's
// UID. Everything else is foreign. Whether a subnet is public follows from the Spec, and
// never from its routes.
package awsnet
