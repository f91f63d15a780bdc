package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
)

// echoPort is the port at which echoes listen.
const echoPort = 7001

// echo answers packets in the namespace at path.
func echo(t *testing.T, path string, port uint16) {
	t.Helper()
	var conn net.PacketConn
	if err := clustertest.Inside(path, func() (err error) {
		conn, err = net.ListenPacket("udp", fmt.Sprintf(":%d", port))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buffer := make([]byte, 16)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return // closed
			}
			// A client that has gone will retry.
			_, _ = conn.WriteTo(buffer[:n], from)
		}
	}()
}

// asked sends an echo request as the first packet of a flow, and waits for the reply.
func asked(path string, at netip.AddrPort) error {
	var conn net.Conn
	if err := clustertest.Inside(path, func() (err error) {
		conn, err = net.Dial("udp", at.String())
		return err
	}); err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("hello")); err != nil {
		return err
	}
	_, err := conn.Read(make([]byte, 16))
	return err
}
