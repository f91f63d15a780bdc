// Package nft holds masquerade and forward rules as nftables: masquerading in a
// table of tulle's own for both families, and accepts in the FORWARD chains that
// iptables keeps in nftables, where Docker and others drop what is forwarded.
//
// It speaks netlink itself: what reads the rules of strangers must not pass over
// what it does not know.
package nft
