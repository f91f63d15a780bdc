package kernel

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// skipStats omits the counters from a link dump, which are most of it.
const skipStats = 1 << 3 // RTEXT_FILTER_SKIP_STATS

// dumpLinks calls visit with each link message, once it has all of them.
func (c *conn) dumpLinks(visit func(body []byte)) error {
	var bodies [][]byte
	for range dumpAttempts {
		bodies = bodies[:0]
		c.out.reset()
		c.out.begin(unix.RTM_GETLINK, unix.NLM_F_DUMP, c.nextSeq())
		c.out.buf = append(c.out.buf, make([]byte, unix.SizeofIfInfomsg)...)
		c.out.attrUint32(unix.IFLA_EXT_MASK, skipStats)
		c.out.end()
		err := c.dump(func(m message) {
			if m.typ == unix.RTM_NEWLINK {
				bodies = append(bodies, bytes.Clone(m.body))
			}
		})
		if err == nil {
			for _, b := range bodies {
				visit(b)
			}
			return nil
		}
		if !errors.Is(err, errInterrupted) {
			return err
		}
	}
	return errInterrupted
}

// names returns the names of all links.
func (c *conn) names() (names, error) {
	n := names{}
	err := c.dumpLinks(func(b []byte) {
		index, name := linkName(b)
		n[index] = name
	})
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	return n, nil
}

// index returns the present index of the link called name.
func (c *conn) index(name string) (int, error) {
	body, err := c.findLink(name, skipStats)
	if err != nil {
		return 0, err
	}
	index, _ := linkName(body)
	return index, nil
}

// findLink returns the message of the link called name, until the next receive.
func (c *conn) findLink(name string, mask uint32) ([]byte, error) {
	c.out.reset()
	c.out.begin(unix.RTM_GETLINK, 0, c.nextSeq())
	c.out.buf = append(c.out.buf, make([]byte, unix.SizeofIfInfomsg)...)
	c.out.attrString(unix.IFLA_IFNAME, name)
	c.out.attrUint32(unix.IFLA_EXT_MASK, mask)
	c.out.end()
	body, err := c.ask(unix.RTM_NEWLINK)
	if err != nil {
		return nil, fmt.Errorf("find link %s: %w", name, err)
	}
	return body, nil
}
