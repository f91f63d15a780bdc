// Package wireguardtest runs whole daemons with the backend wireguard beside flannel's,
// in a virtual machine: make test-vm-flannel.
package wireguardtest
