// Package snapshot saves the network as it was known last in a file, so that a host
// that boots while the store is away has its network.
//
// The file is text, one thing a line:
//
//	tulle-snapshot 1 2026-11-21T17:45:00Z
//	source "/coreos.com/network"
//	config {"EnableIPv4":true,…}
//	own 10.5.34.0-24 12 8589934592.0 {"PublicIP":"192.0.2.7",…}
//	broken checksums
//	former {"Type":"vxlan"}
//	peer 10.5.35.0-24 13 - {"PublicIP":"192.0.2.8",…}
//	end 1 1c291ca3
//
// A lease is its key, Created, Expires in seconds (- for a reservation) and its
// value as it stands in a store. The line broken is there only if the host's
// interface puts wrong checksums into tunnels. There is a line former for each backend
// that the host moves away from. The last line has the number of peers
// and the CRC-32C of all lines before it. The config may hold secrets, so the file is
// for root alone.
package snapshot
