// Package awsnet decides what a cluster's network on AWS is like, and which calls of AWS's
// API make it so. It is pure: no SDK, no Kubernetes, no clock and no network.
//
// ParseFile and ParseObject read a Spec, in the words of Cluster API's AWSCluster. Check
// returns all problems of a Spec before the first call, and Complete the Network that the
// Spec means: the same Spec and zones always give the same subnets. Desired returns the
// objects of a Network, and Diff compares them with an Account, which is what a complete
// reading of AWS found. The Plan that Diff returns is a graph of steps: Ready returns those
// that can run now, Bind fills in IDs, and Headroom reports which quotas do not suffice for
// all of them. The caller makes the calls, and then reads and compares again.
//
// Everything that AWS can tag has the tags of its Owner from the call that creates it. Diff
// changes and deletes only what has the tag of Cluster API's AWS provider for the cluster,
// with the value owned, and the cluster's UID. What has no tags is ours as a part of what
// is. Everything else is foreign: it is kept, and listed. Whether a subnet is public follows
// from the Spec, and never from its routes.
package awsnet
