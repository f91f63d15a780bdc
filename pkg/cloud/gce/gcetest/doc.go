// Package gcetest is a server in the test's process that speaks the documented JSON of
// the Compute Engine API, as far as alias ranges need it: instances.get, instances.list
// with filter and pages, instances.updateNetworkInterface with fingerprint and
// requestId, and zoneOperations.get and wait. It shares no code with the client.
//
//	f := gcetest.New(t)
//	f.Add("zone-a", gcetest.Instance{Name: "worker-1"})
//	f.URL                             // for a client
//	f.Do(func() { f.Refuse = … })     // one of its faults
//	f.Asked("instances.list")         // counts requests
//
// A server without a listener runs in a bubble of testing/synctest, with its clients:
//
//	f := gcetest.InProcess(t)
//	gce.Options{Endpoint: f.Endpoint(), Transport: f.Transport()}
//
// It is a metadata server, too, and a token server for keys of service accounts.
package gcetest
