// Package iptables keeps firewall.Rules as rules of iptables, by the host's own
// commands. A host may have two sets of tables, each with its own commands: those of
// nf_tables, and the legacy ones. In either, two chains and the jumps to them are
// ours; this package changes nothing else in a table.
package iptables
