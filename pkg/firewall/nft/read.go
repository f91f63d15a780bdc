package nft

import (
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/firewall"
)

// found is a rule in the kernel.
type found struct {
	firewall.Rule
	chain   string
	handle  []byte // as the kernel writes it
	comment string
	packets uint64 // that its counter has seen
}

// errMoved means that the rules changed while they were read.
var errMoved = errors.New("the rules changed while they were read")

// inTable, inChain and chainOf return the attributes that identify tables, rules and
// chains.
func inTable(table string) []byte {
	return encode(func(e *netlink.AttributeEncoder) error {
		e.String(unix.NFTA_TABLE_NAME, table) // the kernel uses that of rules
		return nil
	})
}

func inChain(table, chain string) []byte {
	return encode(func(e *netlink.AttributeEncoder) error {
		e.String(unix.NFTA_RULE_TABLE, table)
		e.String(unix.NFTA_RULE_CHAIN, chain)
		return nil
	})
}

func chainOf(table, chain string) []byte {
	return encode(func(e *netlink.AttributeEncoder) error {
		e.String(unix.NFTA_CHAIN_TABLE, table)
		e.String(unix.NFTA_CHAIN_NAME, chain)
		return nil
	})
}

// get returns the attributes of one table or chain, or nil if it does not exist.
func (c conn) get(family uint8, kind int, what []byte) (*list, error) {
	answer, err := c.request(family, kind, 0, what)
	switch {
	case isGone(err):
		return nil, nil
	case errors.Is(err, unix.EINVAL): // the request is always the same
		return nil, fmt.Errorf("%w: %w", errAbsent, err)
	case err != nil:
		return nil, err
	case len(answer) != 1 || len(answer[0].Data) < 4:
		return nil, fmt.Errorf("%d answers from the kernel instead of one", len(answer))
	}
	a := attributes(answer[0].Data[4:])
	return &a, nil
}

// rules returns the rules of one chain, in order. If chain is "", it returns those of
// all chains of a table.
func (c conn) rules(family uint8, table, chain string) ([]found, error) {
	which := inTable(table)
	if chain != "" {
		which = inChain(table, chain)
	}
	answer, err := c.request(family, unix.NFT_MSG_GETRULE, netlink.Dump, which)
	if err != nil {
		return nil, err
	}
	var all []found
	for _, m := range answer {
		if m.Header.Flags&netlink.DumpInterrupted != 0 {
			return nil, errMoved
		}
		if len(m.Data) < 4 || m.Data[0] != family {
			continue
		}
		a := attributes(m.Data[4:])
		r := found{chain: text(a.of[unix.NFTA_RULE_CHAIN]), handle: a.of[unix.NFTA_RULE_HANDLE]}
		if text(a.of[unix.NFTA_RULE_TABLE]) != table || chain != "" && r.chain != chain { // old kernels do not filter
			continue
		}
		r.Rule, r.comment = decode(a.of[unix.NFTA_RULE_EXPRESSIONS], family)
		r.packets = counted(a.of[unix.NFTA_RULE_EXPRESSIONS])
		if r.comment == "" {
			r.comment = comment(a.of[unix.NFTA_RULE_USERDATA])
		}
		all = append(all, r)
	}
	return all, nil
}

// comment returns the first comment in a rule's user data.
func comment(b []byte) string {
	for len(b) >= 2 && len(b) >= 2+int(b[1]) {
		if b[0] == 0 {
			return text(b[2 : 2+int(b[1])])
		}
		b = b[2+int(b[1]):]
	}
	return ""
}

// plain returns rules in the form that firewall.Position takes.
func plain(all []found) []firewall.Rule {
	rules := make([]firewall.Rule, len(all))
	for i, r := range all {
		rules[i] = r.Rule
	}
	return rules
}

// hook is where a base chain is attached.
type hook struct {
	kind     string
	number   uint32
	priority int32
	policy   uint32
}

func hookOf(chain *list) hook {
	h := attributes(chain.of[unix.NFTA_CHAIN_HOOK])
	return hook{
		kind:     text(chain.of[unix.NFTA_CHAIN_TYPE]),
		number:   uint32(number(h.of[unix.NFTA_HOOK_HOOKNUM])),
		priority: int32(number(h.of[unix.NFTA_HOOK_PRIORITY])),
		policy:   uint32(number(chain.of[unix.NFTA_CHAIN_POLICY])),
	}
}

// attributes returns the attributes of a chain of a table with the hook.
func (h hook) attributes(table, chain string) []byte {
	return encode(func(e *netlink.AttributeEncoder) error {
		e.String(unix.NFTA_CHAIN_TABLE, table)
		e.String(unix.NFTA_CHAIN_NAME, chain)
		e.Nested(unix.NFTA_CHAIN_HOOK, func(e *netlink.AttributeEncoder) error {
			e.Uint32(unix.NFTA_HOOK_HOOKNUM, h.number)
			e.Int32(unix.NFTA_HOOK_PRIORITY, h.priority)
			return nil
		})
		e.Uint32(unix.NFTA_CHAIN_POLICY, h.policy)
		e.String(unix.NFTA_CHAIN_TYPE, h.kind)
		return nil
	})
}

// ruleAttributes returns the attributes of a rule of a table's chain. before is the
// rule that it must precede, or says that it is the last.
func ruleAttributes(table, chain string, r firewall.Rule, before []byte) []byte {
	return encode(func(e *netlink.AttributeEncoder) error {
		e.String(unix.NFTA_RULE_TABLE, table)
		e.String(unix.NFTA_RULE_CHAIN, chain)
		if before != nil {
			e.Bytes(unix.NFTA_RULE_POSITION, before)
		}
		e.Nested(unix.NFTA_RULE_EXPRESSIONS, expressions(r, table != filterTable))
		if table == filterTable {
			e.Bytes(unix.NFTA_RULE_USERDATA, userData(remark))
		}
		return nil
	})
}
