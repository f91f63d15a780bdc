// Package awstest is a fake of AWS in the test's process: a server on loopback. It speaks the
// query protocols of EC2, of STS and of network load balancers (Elastic Load Balancing), and
// GetServiceQuota. It shares no code with the client. All objects form one consistent model: a
// route becomes a blackhole when its instance is gone, and a subnet with an interface cannot be
// deleted.
//
//	f := awstest.New(t)
//	f.Setenv(t)                                   // makes the SDK use it
//	f.Launch(awstest.Launch{Count: 50})           // instances, without limits and faults
//	f.Inject(awstest.Fault{Action: "CreateRoute", Times: 2, Answer: awstest.Throttled})
//	f.Set(func(s *awstest.Settings) { s.RoutesPerTable = 50 })
//	f.Advance(time.Hour)                          // its clock
//	f.Count("CreateRoute")                        // calls
//
// Other processes reach it with the environment that f.Env returns. The command
// pkg/test/awsfake serves it without a test.
package awstest
