// Package apply carries out the plans of pkg/awsnet. Run is the pure part: it says which calls
// can begin, and takes their results. Apply is its loop.
package apply
