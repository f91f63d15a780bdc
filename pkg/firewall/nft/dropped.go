package nft

import (
	"context"
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Dropped returns how many packets the rules that confine have dropped since they were
// written.
func (n NAT) Dropped(context.Context) (packets uint64, err error) {
	c, err := dial(n.namespace, 0)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	rules, err := c.rules(unix.NFPROTO_INET, tableName, confineName)
	if err != nil {
		return 0, fmt.Errorf("nftables: %w", err)
	}
	for _, r := range rules {
		packets += r.packets
	}
	return packets, nil
}

// counted returns the number of packets that the counters among a rule's expressions
// have seen.
func counted(expressions []byte) (packets uint64) {
	each(expressions, func(_ uint16, b []byte) {
		if e := attributes(b); text(e.of[unix.NFTA_EXPR_NAME]) == "counter" {
			if n := inside(e.of[unix.NFTA_EXPR_DATA], unix.NFTA_COUNTER_PACKETS); len(n) == 8 {
				packets += binary.BigEndian.Uint64(n)
			}
		}
	})
	return packets
}
