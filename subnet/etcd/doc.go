// Package etcd is the subnet.Store of networks that keep their config and their
// leases in etcd, under the keys and in the formats of flannel.
package etcd
