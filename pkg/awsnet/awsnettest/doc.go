// Package awsnettest is a model of an AWS account for tests of networks: it makes the calls
// of a plan, one by one, and refuses what AWS refuses. It shares no code with the planner.
package awsnettest
