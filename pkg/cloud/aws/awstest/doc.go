// Package awstest is one AWS account in the test's process: a server on loopback that
// speaks the query protocols of EC2, STS and the network load balancers of Elastic Load
// Balancing, and GetServiceQuota, and that shares no code with a client. Every object is in one consistent model: a route whose instance
// goes away turns into a blackhole, and a subnet that holds an interface cannot be deleted.
//
//	f := awstest.New(t)
//	f.Setenv(t)                                   // leads the SDK's own chain to it
//	f.Launch(awstest.Launch{Count: 50})           // instances, past limits and faults
//	f.Inject(awstest.Fault{Action: "CreateRoute", Times: 2, Answer: awstest.Throttled})
//	f.Set(func(s *awstest.Settings) { s.RoutesPerTable = 50 })
//	f.Advance(time.Hour)                          // its clock
//	f.Count("CreateRoute")                        // calls
//
// Other processes reach it with the environment that f.Env returns. The command
// pkg/test/awsfake serves it without a test.
package awstest
