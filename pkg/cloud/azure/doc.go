// Package azure reads and changes what controllers need of Microsoft Azure: virtual
// machines, instances of scale sets, network interfaces and one route table.
//
// It stands on the pipeline and the credentials of Azure's SDK. Its messages are its own: a
// table or an interface is written whole, so what a message of the SDK does not know would
// be lost with each write. Every write names the ETag of what was read, so that a foreign
// change is never overwritten.
//
// Every list reads all pages or fails. All requests of a Client share one cloud.Limiter,
// which leaves half of the published rates to other programs. The SDK's own retries are
// off: only the Client sends a request again.
package azure
