// Package identity distinguishes this installation from every other, including copies
// of its disk.
//
// The file identity in the state folder holds a random secret, for root only.
// Other nodes see the instance, which is derived from the secret. The file also
// records the hardware on which the secret was made: a machine that finds a secret
// of other hardware is a copy, and makes a new secret.
//
// Copies of one image have one machine-id, and so one node ID. A copy that meets
// another live one forks: it uses an ID derived from the shared one and its secret,
// until the machine gets its own machine-id.
package identity
