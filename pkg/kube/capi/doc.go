// Package capi has the few fields of Cluster API's objects that controllers of
// infrastructure read, and the parts of its contract that all such controllers share:
// owners, pauses, conditions and endpoints. Its two versions differ in few fields, so one
// type reads both.
package capi
