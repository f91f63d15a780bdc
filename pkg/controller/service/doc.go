// Package service is the service controller: it gives Services of the type LoadBalancer
// network load balancers, makes the Nodes their targets, writes their host names to the
// Services, and removes them with their Services. What is made is decided by package
// cloudbalancer.
package service
