// Package kube speaks to a Kubernetes API server in little memory.
//
// A Client finds the server and authenticates, which client-go does for it; it reads
// kubeconfigs, tokens and certificates again when their files change. Get, Patch and
// Create are single requests.
//
// A Watch follows all objects of a resource by one list and one watch, and hands each
// to a Sink as it comes: no more than one is held at a time. The list is streamed where
// the server can, and comes in pages elsewhere. A watch that breaks goes on from where
// it was. A Format says how objects are asked for and decoded: as protobuf, of which a
// decoder steps over what it does not need; as their metadata alone; or as JSON, in
// which custom resources come.
package kube
