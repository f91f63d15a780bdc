// Package aws reads and changes what controllers need of Amazon Web Services: instances,
// route tables and network interfaces.
//
// Every read is filtered, and reads all pages or fails. All requests of a Client share
// one cloud.Limiter, which leaves half of the published rates to other programs. The
// SDK's own retries are off: only the Client sends a request again, with a token of its
// own.
package aws
