package nft

import (
	"errors"
	"fmt"
	"sync"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/subnet"
)

const (
	// tableName is tulle's own table, of both families.
	tableName = "tulle"
	// Its chains: of what is masqueraded, and of what must not leave.
	chainName, confineName = "postrouting", "confine"
	// The tables of iptables, and the chain in which it decides on forwarded packets.
	filterTable, natTable, mangleTable = "filter", "nat", "mangle"
	forwardChain                       = "FORWARD"
)

// ownHook is where packets that leave the host are masqueraded: priority srcnat.
var ownHook = hook{kind: "nat", number: unix.NF_INET_POST_ROUTING, priority: 100, policy: 1}

// confineHook is where every packet that leaves the host is seen, with the device that it
// leaves through: priority mangle, so that nothing precedes it that could let it out.
var confineHook = hook{kind: "filter", number: unix.NF_INET_POST_ROUTING, priority: -150, policy: 1}

var protocols = subnet.Pair[uint8]{unix.NFPROTO_IPV4, unix.NFPROTO_IPV6}

// Tables are the nftables of a network namespace.
type Tables struct {
	// DryRun does everything except for the writing.
	DryRun bool

	namespace string

	mu     sync.Mutex
	writer conn   // which does all writing; nil before the first, and after a failure
	port   uint32 // by which the kernel knows it, and no other socket while it is open
}

// Open returns the tables of the network namespace at path, or of this one if it is
// empty.
func Open(path string) *Tables { return &Tables{namespace: path} }

// Check returns why the kernel cannot hold what Sync writes. It changes nothing.
func (t *Tables) Check() error {
	const table = "tulle-check"
	var b batch
	b.add(unix.NFPROTO_INET, unix.NFT_MSG_NEWTABLE, netlink.Create, inTable(table))
	b.add(unix.NFPROTO_INET, unix.NFT_MSG_NEWCHAIN, netlink.Create, ownHook.attributes(table, chainName))
	for _, v := range []firewall.Verdict{firewall.Return, firewall.MasqueradeRandom} {
		b.add(unix.NFPROTO_INET, unix.NFT_MSG_NEWRULE, netlink.Create|netlink.Append,
			ruleAttributes(table, chainName, firewall.Rule{Marked: true, Does: v}, nil))
	}
	b.add(unix.NFPROTO_INET, unix.NFT_MSG_DELTABLE, 0, inTable(table))
	err := t.commit(b)
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("write to nftables: %w; run it as root, or with the capability CAP_NET_ADMIN", err)
	}
	if err != nil {
		return fmt.Errorf("this kernel cannot masquerade with nftables for both families (Linux 5.2 with nf_tables and nft_masq can): %w", err)
	}
	return nil
}

// carryOut applies what plan returns, in one transaction. If other programs have
// changed the rules meanwhile, it plans again.
func (t *Tables) carryOut(plan func(c conn, b *batch) error) (changed bool, err error) {
	for range 5 {
		changed, err = t.try(plan)
		if !errors.Is(err, errMoved) && !isGone(err) {
			break
		}
	}
	if err != nil {
		return false, fmt.Errorf("nftables: %w", err)
	}
	return changed, nil
}

func (t *Tables) try(plan func(c conn, b *batch) error) (changed bool, err error) {
	c, err := dial(t.namespace, 0)
	if err != nil {
		return false, err
	}
	defer c.Close()
	var b batch
	if err := plan(c, &b); err != nil || len(b) == 0 {
		return false, err
	}
	if t.DryRun {
		return true, nil
	}
	return true, t.commit(b)
}

// commit sends a batch to the kernel. One socket sends all batches, which identifies
// their events as ours.
func (t *Tables) commit(b batch) (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.writer.Conn == nil {
		if t.writer, err = dial(t.namespace, 0); err != nil {
			return err
		}
		if t.port, err = t.writer.port(); err != nil {
			t.drop()
			return err
		}
	}
	if err = t.writer.commit(b); err != nil {
		t.drop() // more answers may come
	}
	return err
}

// drop closes the writer; the caller holds mu.
func (t *Tables) drop() {
	t.writer.Close()
	t.writer, t.port = conn{}, 0
}

// isOurs reports whether we caused an event.
func (t *Tables) isOurs(port uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return port == t.port && port != 0
}
