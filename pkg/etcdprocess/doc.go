// Package etcdprocess is what tulled and the program tulle-etcd share: the
// settings of an etcd of one member, the socket on which a running one answers,
// and how tulled starts and follows it.
package etcdprocess
