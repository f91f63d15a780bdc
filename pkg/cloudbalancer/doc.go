// Package cloudbalancer decides what the load balancers of Services are like, and which
// calls of a cloud's API make them so. It is pure: Read turns a Service into a Want, an
// Account holds what the cloud's account has, and Next returns the calls that can be made
// now. The caller reads and writes, and passes the outcomes to the Account.
//
// A Service gets a network load balancer, a listener and a target group for each port, and
// a security group. Names and tags are those of the AWS cloud controller manager, so that
// its balancers are adopted as they are.
//
// Only what is ours is changed or deleted: it has the tag kubernetes.io/cluster/NAME with
// the value owned, and the Service's name or UID. Rules in other security groups are ours
// if their description has the balancer's name, which is made of the Service's UID.
package cloudbalancer
