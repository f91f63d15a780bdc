package awstest

// igw is an internet gateway.
type igw struct {
	meta
	vpc *vpc // nil while it is detached
}
