// Package nodepools reads pools of podCIDRs from a file of YAML or JSON:
//
//	pools:
//	- name: zone-a
//	  nodeSelector: {topology.kubernetes.io/zone: a}
//	  ipv4: {ranges: [10.1.0.0/16, 10.7.0.0/16], blockBits: 24, drainingRanges: [10.1.0.0/17]}
//	  ipv6: {ranges: ["fd00:1::/48"], blockBits: 64}
//	- name: default
//	  ipv4: {ranges: [10.244.0.0/16]}
//
// It refuses every unknown key and invalid value, and names the place and the fix.
package nodepools
