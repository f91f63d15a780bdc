package nft

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// answerTimeout ends a wait for an answer that the kernel never gave.
const answerTimeout = 10 * time.Second

// group is the multicast group of nftables' events.
const group = 1 << (unix.NFNLGRP_NFTABLES - 1)

// conn is a netlink socket for one read or one transaction.
type conn struct{ *netlink.Conn }

// dial opens a socket in the network namespace at path, or in this one if it is
// empty.
func dial(path string, groups uint32) (conn, error) {
	config := &netlink.Config{Groups: groups}
	if path != "" {
		ns, err := os.Open(path)
		if err != nil {
			return conn{}, err
		}
		defer ns.Close()
		config.NetNS = int(ns.Fd())
	}
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, config)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return conn{}, fmt.Errorf("%w: %w", errAbsent, err)
	}
	if err != nil {
		return conn{}, fmt.Errorf("open a netlink socket: %w", err)
	}
	_ = c.SetOption(netlink.ExtendedAcknowledge, true) // for better errors, if the kernel has them
	return conn{c}, nil
}

// request requests the object that one message names.
func (c conn) request(family uint8, kind int, flags netlink.HeaderFlags, attributes []byte) ([]netlink.Message, error) {
	if err := c.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return nil, err
	}
	return c.Execute(message(family, kind, netlink.Request|flags, attributes))
}

// port returns the port by which the kernel knows the socket.
func (c conn) port() (port uint32, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	if failed := raw.Control(func(fd uintptr) {
		var a unix.Sockaddr
		if a, err = unix.Getsockname(int(fd)); err == nil {
			port = a.(*unix.SockaddrNetlink).Pid
		}
	}); failed != nil {
		return 0, failed
	}
	return port, os.NewSyscallError("getsockname", err)
}

// errAbsent is returned for a kernel that has no place for rules.
var errAbsent = errors.New("the kernel has no nf_tables")

// unlessAbsent returns err, or nil for errAbsent: there is nothing to remove.
func unlessAbsent(err error) error {
	if errors.Is(err, errAbsent) {
		return nil
	}
	return err
}

// isGone reports whether err means that the requested object does not exist.
func isGone(err error) bool { return errors.Is(err, unix.ENOENT) }

func message(family uint8, kind int, flags netlink.HeaderFlags, attributes []byte) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind), Flags: flags},
		Data:   append([]byte{family, unix.NFNETLINK_V0, 0, 0}, attributes...),
	}
}

// batch is one transaction: all of it or nothing.
type batch []netlink.Message

func (b *batch) add(family uint8, kind int, flags netlink.HeaderFlags, attributes []byte) {
	*b = append(*b, message(family, kind, netlink.Request|flags, attributes))
}

// commit sends a batch to the kernel, and returns its error.
func (c conn) commit(b batch) error {
	if err := c.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	b[len(b)-1].Header.Flags |= netlink.Acknowledge // those that fail answer anyway
	whole := append(append([]netlink.Message{border(unix.NFNL_MSG_BATCH_BEGIN)}, b...), border(unix.NFNL_MSG_BATCH_END))
	size := 0
	for _, m := range whole {
		size += unix.NLMSG_HDRLEN + len(m.Data)
	}
	_ = c.SetWriteBuffer(max(size, 1<<20)) // it is sent as one; if that is not allowed, the send fails
	sent, err := c.SendMessages(whole)
	if err != nil {
		return err
	}
	last := sent[len(sent)-2].Header.Sequence
	for {
		answers, err := c.Receive()
		if err != nil {
			return err
		}
		for _, m := range answers {
			if m.Header.Sequence == last {
				return nil
			}
		}
	}
}

func border(kind netlink.HeaderType) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{Type: kind, Flags: netlink.Request},
		Data:   []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, unix.NFNL_SUBSYS_NFTABLES},
	}
}
