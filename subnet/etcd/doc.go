// Package etcd is the subnet.Store of networks that keep their config and leases in
// etcd, under flannel's keys and in its formats.
package etcd
