package e2e

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
)

// mirror listens in the namespace at path, over both families, and sends each client
// the address that it comes from.
func mirror(t *testing.T, path string, port uint16) {
	t.Helper()
	var l net.Listener
	if err := clustertest.Inside(path, func() (err error) {
		l, err = net.Listen("tcp", fmt.Sprintf(":%d", port))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			// A client that has gone will retry.
			_, _ = io.WriteString(conn, conn.RemoteAddr().String())
			conn.Close()
		}
	}()
}

// lookFor limits a look's connect and its answer. TCP sends a lost SYN again
// after one second: the machine drops packets of all namespaces when one of them floods it.
const lookFor = 5 * time.Second

// look returns the source address under which a mirror sees the namespace at path.
func look(path string, at netip.AddrPort) (netip.Addr, error) {
	var conn net.Conn
	if err := clustertest.Inside(path, func() (err error) {
		conn, err = net.DialTimeout("tcp", at.String(), lookFor)
		return err
	}); err != nil {
		return netip.Addr{}, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(lookFor)); err != nil {
		return netip.Addr{}, err
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return netip.Addr{}, err
	}
	from, err := netip.ParseAddrPort(string(text))
	return from.Addr(), err
}

// seen waits until a mirror sees an address as the source of the namespace at path.
func (w *world) seen(path string, at netip.AddrPort, as netip.Addr) {
	w.t.Helper()
	w.eventually(func() error {
		if from, err := look(path, at); err != nil || from != as {
			return fmt.Errorf("%s sees %s come from %s, not from %s: %w", at, path, from, as, err)
		}
		return nil
	})
}
