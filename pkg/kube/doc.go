// Package kube is a client of a Kubernetes API server that needs little memory.
//
// A Client finds the server and authenticates, both with client-go. It re-reads
// kubeconfigs, tokens and certificates when their files change. Get, Patch, Merge,
// Create, Update and Delete are single requests. The last four are the writes of
// controllers: OutcomeOf returns how one ended, and a Version as a precondition
// makes the server refuse it if the object has changed.
//
// A Watch follows all objects of a resource with one list and one watch. It hands
// each object to a Sink, and holds one object at a time. The server streams the list
// if it can; otherwise the list comes in pages. A broken watch resumes where it was.
//
// A Format is how objects are requested and decoded:
//   - as protobuf; the decoder skips unused fields;
//   - as their metadata alone;
//   - as JSON, the only format of custom resources; also that of Events, Leases,
//     ServiceCIDRs and ClusterCIDRs here.
package kube
