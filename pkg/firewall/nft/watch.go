package nft

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// watchedTable is a table that is watched.
type watchedTable struct {
	family uint8
	table  string
}

// WatchIPTables is for callers that keep rules in the tables of iptables. It calls
// poke when it begins to listen, and after every change of these tables.
func (t *Tables) WatchIPTables(ctx context.Context, poke func()) error {
	return t.watch(ctx, poke, at(watchedTable{unix.NFPROTO_IPV4, natTable}, watchedTable{unix.NFPROTO_IPV4, filterTable},
		watchedTable{unix.NFPROTO_IPV6, natTable}, watchedTable{unix.NFPROTO_IPV6, filterTable}))
}

// watch calls poke when it begins to listen, and after events that matter and are not
// our own.
func (t *Tables) watch(ctx context.Context, poke func(), matters func(netlink.Message) bool) error {
	c, err := dial(t.namespace, group)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	_ = c.SetReadBuffer(1 << 20) // others may change a great deal at once
	poke()
	for {
		events, err := c.Receive()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, unix.ENOBUFS):
			poke()
			continue
		case err != nil:
			return fmt.Errorf("watch nftables: %w", err)
		}
		for _, e := range events {
			if len(e.Data) >= 4 && matters(e) && !t.isOurs(e.Header.PID) {
				poke()
				break
			}
		}
	}
}

// at returns a filter for the events of tables, their chains and their rules.
func at(places ...watchedTable) func(netlink.Message) bool {
	return func(e netlink.Message) bool {
		switch e.Header.Type & 0xff {
		case unix.NFT_MSG_NEWTABLE, unix.NFT_MSG_DELTABLE, unix.NFT_MSG_NEWCHAIN, unix.NFT_MSG_DELCHAIN, unix.NFT_MSG_NEWRULE, unix.NFT_MSG_DELRULE:
			table := inside(e.Data[4:], unix.NFTA_RULE_TABLE) // tables and chains use the same attribute
			return slices.ContainsFunc(places, func(p watchedTable) bool { return p.family == e.Data[0] && p.table == text(table) })
		}
		return false
	}
}
