// Package identity keeps what tells this installation from every other, also
// from copies of its disk.
//
// The folder for state holds a random secret in the file identity, for root
// alone. What others see of it is the instance, which is derived from it. Beside
// the secret stands the hardware that it was made on: a machine that finds the
// secret of other hardware was copied, and makes one of its own.
//
// Copies of one image have one machine-id, and so one node ID. Where one of them
// meets another that lives, it forks: it goes on under an ID that is derived from
// the shared one and its secret, until it gets a machine-id of its own.
package identity
