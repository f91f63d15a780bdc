// Package apitest is an API server of Nodes in the test's process, with faults to
// inject. It encodes with Kubernetes' own types, and shares no code with the client
// under test.
//
//	f := apitest.New(t)
//	f.URL                                  // for a client
//	f.Do(func() { f.NoWatchList = true })  // one of its faults
//	f.Cut()                                // ends all watches
//	f.Compact()                            // forgets all history
//	f.Asked("GET /api/v1/nodes?")          // counts requests
//
// The server ends with the test.
package apitest
