// Package firewall says which packets of the network leave a host with its address
// in place of theirs, and which others' firewalls must let through, and keeps it
// so. What is wanted is a value, Rules; the kernel holds it as nftables or as
// iptables rules, which the packages below write.
package firewall
