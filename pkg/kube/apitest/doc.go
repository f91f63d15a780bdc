// Package apitest is an API server in the test's process, with faults to inject. It has
// Nodes, Leases, Events, ServiceCIDRs, and whatever other resource a test needs. It
// encodes with Kubernetes' own types, and shares no code with the client under test.
//
//	f := apitest.New(t)
//	f.URL                                  // for a client
//	f.Do(func() { f.NoWatchList = true })  // one of its faults
//	f.Cut()                                // ends all watches
//	f.Compact()                            // forgets all history
//	f.Backup()                             // returns a function that restores the store
//	f.Asked("GET /api/v1/nodes?")          // counts requests
//
// Nodes are Kubernetes' own type, in protobuf and in JSON. All other objects are JSON,
// or their metadata in protobuf:
//
//	f.Serves[path] = "ClusterCIDR"         // the server has that resource, too
//	f.Object(path + "/name")               // an object's present state
//	f.ChangeObject("MODIFIED", path, o)    // writes one inside Do, even an invalid one
//
// A server without a listener runs in a bubble of testing/synctest, with its clients:
//
//	f := apitest.InProcess(t)
//	c.Wrap(func(http.RoundTripper) http.RoundTripper { return f.Transport() })
//
// Faults, each a function of the request:
//
//	f.Refuse  // answers 409, 410, 429, 500 …, with Retry-After
//	f.Hold    // serves the request later, even if the client is gone by then
//	f.Lose    // serves the request, and cuts the connection in place of an answer
//	f.Answer  // answers in its own way
//
// The server checks what a real one checks of the writes that controllers make: uid,
// resourceVersion, finalizers, podCIDRs that never change. The tests of pkg/kube compare
// the two. The server ends with the test.
package apitest
