// Package gcetest is a server in the test's process that speaks the documented JSON of
// the Compute Engine API, as far as the client of package gce needs it. It shares no code
// with that client. It has:
//
//   - instances.get, instances.list and aggregatedList, with filters and pages, and
//     instances.updateNetworkInterface with fingerprint and requestId;
//
//   - routes.insert, delete, get and list, with the warnings about next hops;
//
//   - zoneOperations and globalOperations, which end at once, late or with an error.
//
//     f := gcetest.New(t)
//     f.Add("zone-a", gcetest.Instance{Name: "worker-1"})
//     f.URL                             // for a client
//     f.Do(func() { f.Refuse = … })     // one of its faults
//     f.Asked("instances.list")         // counts requests
//
// A server without a listener runs in a bubble of testing/synctest, with its clients:
//
//	f := gcetest.InProcess(t)
//	gce.Options{Endpoint: f.Endpoint(), Transport: f.Transport()}
//
// It is a metadata server, too, and a token server for keys of service accounts.
package gcetest
