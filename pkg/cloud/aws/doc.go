// Package aws is the client of Amazon Web Services. It reads instances and subnets, and reads
// and changes route tables, network interfaces, network load balancers and security groups. It
// also reads a cluster's whole network, and makes the calls of awsnet's plans.
//
// Every read is filtered, and reads all pages or fails. All requests of a Client share one
// cloud.Limiter, which leaves half of the published rates to other programs. The SDK's own
// retries are off: the Client retries a request itself, and each try takes a token.
package aws
