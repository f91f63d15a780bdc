// Package nft keeps masquerade and forward rules in nftables. It masquerades in a
// table of tulle's own for both families. It accepts packets in the FORWARD chains
// that iptables keeps in nftables, where Docker and others drop forwarded packets.
//
// It speaks netlink itself: a reader of foreign rules must not skip what it does not
// know.
package nft
