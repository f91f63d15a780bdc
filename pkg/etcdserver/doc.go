// Package etcdserver runs an etcd of one member inside this process, for a
// network whose first host keeps the store.
package etcdserver
