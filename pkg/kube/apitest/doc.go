// Package apitest is an API server of Nodes, inside the test's process, that fails in
// each way that a test wants. It encodes with Kubernetes' own types, and shares no code
// with the client that it tests.
//
//	f := apitest.New(t)
//	f.URL                                  // for a client
//	f.Do(func() { f.NoWatchList = true })  // one of its faults
//	f.Cut()                                // ends all watches
//	f.Compact()                            // forgets all history
//	f.Asked("GET /api/v1/nodes?")          // counts requests
//
// It ends with the test.
package apitest
