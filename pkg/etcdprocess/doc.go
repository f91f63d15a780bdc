// Package etcdprocess has the settings of the program tulle-etcd, an etcd of one member.
package etcdprocess
