// Package firewall decides which packets of the network leave a host with its address
// in place of their own, and which ones foreign firewalls must accept, and keeps the
// rules for that in place. The wanted rules are a value, Rules. The packages below
// write them as nftables or as iptables rules.
package firewall
