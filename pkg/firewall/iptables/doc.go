// Package iptables holds firewall.Rules as rules of iptables, by the host's own
// commands. A host may have two sets of tables, each with its own commands:
// those of nf_tables, and the legacy ones. Of either, ours are two chains and
// the jumps to them; nothing else in a table is ever changed.
package iptables
