package kernel

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// skipStats asks a link dump to leave out the counters, which are most of it.
const skipStats = 1 << 3 // RTEXT_FILTER_SKIP_STATS

// dumpLinks calls visit with each link message.
func (c *conn) dumpLinks(visit func(body []byte)) error {
	c.out.reset()
	c.out.begin(unix.RTM_GETLINK, unix.NLM_F_DUMP, c.nextSeq())
	c.out.buf = append(c.out.buf, make([]byte, unix.SizeofIfInfomsg)...)
	c.out.attrUint32(unix.IFLA_EXT_MASK, skipStats)
	c.out.end()
	return c.dump(func(m message) {
		if m.typ == unix.RTM_NEWLINK {
			visit(m.body)
		}
	})
}

// names asks for the names of all links.
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

// index asks for the index that the link called name has now.
func (c *conn) index(name string) (int, error) {
	c.out.reset()
	c.out.begin(unix.RTM_GETLINK, 0, c.nextSeq())
	c.out.buf = append(c.out.buf, make([]byte, unix.SizeofIfInfomsg)...)
	c.out.attrString(unix.IFLA_IFNAME, name)
	c.out.attrUint32(unix.IFLA_EXT_MASK, skipStats)
	c.out.end()
	body, err := c.ask(unix.RTM_NEWLINK)
	if err != nil {
		return 0, fmt.Errorf("find link %s: %w", name, err)
	}
	index, _ := linkName(body)
	return index, nil
}
