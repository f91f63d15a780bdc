package probe

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

// way returns a path in an overlay.
func way(peer string) Path {
	return Path{
		Peer: peer, Name: "node of " + peer, From: ip("10.5.1.0"), To: ip("10.5.2.0"),
		HostFrom: ip("198.18.0.1"), HostTo: ip("198.18.0.2"), Tunnel: "UDP port 8472", Link: "tulle.1", MTU: 1450,
	}
}

// echoes is an Echoer that decides what returns.
type echoes func(t Try) (Answer, error)

// Echo implements Echoer.
func (e echoes) Echo(ctx context.Context, t Try) (Answer, error) {
	a, err := e(t)
	if err == errLost {
		<-ctx.Done()
		return Answer{}, context.Cause(ctx)
	}
	return a, err
}

// passing passes the packets that f accepts.
func passing(f func(t Try) bool) echoes {
	return func(t Try) (Answer, error) {
		if f(t) {
			return Answer{RTT: time.Millisecond}, nil
		}
		return Answer{}, errLost
	}
}

func by(link string) Router {
	return func(context.Context, netip.Addr) (string, error) { return link, nil }
}
