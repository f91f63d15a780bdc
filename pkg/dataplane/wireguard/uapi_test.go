package wireguard

import (
	"bufio"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// TestAnswersAreChecked sends invalid answers.
func TestAnswersAreChecked(t *testing.T) {
	for answer, want := range map[string]string{
		"":                             "does not answer",
		"\n":                           "does not answer",
		"listen_port=1\n":              "does not answer",
		"errno=x\n\n":                  "does not answer",
		"errno=-98\n\n":                "address already in use",
		"errno=2\n\n":                  "no such file",
		strings.Repeat("x", 100_000):   "does not answer",
		"listen_port=7\nerrno=0\n\n":   "",
		"nonsense\n=\nerrno=0\n\nmore": "",
	} {
		socket := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = bufio.NewReader(c).ReadString('\n')
			_, _ = io.WriteString(c, answer)
		}()
		err = getRequest().send(t.Context(), socket, nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40q: got %v, not %q", answer, err, want)
		}
		l.Close()
	}
}

// decode reads the lines of an answer.
func decode(text string) (is netstate.WireGuard, peers []peer) {
	d := decoder{visit: func(p peer) { peers = append(peers, p) }}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		d.line(key, []byte(value))
	}
	d.end()
	return d.is, peers
}

const answered = `private_key=e84b5a6d2717c1003a13b431570353dbaca9146cf150c5f8575680feba52027a
listen_port=12912
public_key=b85996fecc9c7f1fc6d2572a76eda11d59bcd20be8e543b15ce4bd85a8e75a33
preshared_key=188515093e952f5f22e865cef3012e72f8b5f0b598ac0309d5dacce3b70fcf52
endpoint=[abcd:23::33]:51820
last_handshake_time_sec=1700000000
last_handshake_time_nsec=5
tx_bytes=38333
rx_bytes=2224
persistent_keepalive_interval=25
allowed_ip=192.168.4.4/32
allowed_ip=fd00::/8
public_key=58402e695ba1772b1cc9309755f043251ea77fdcf10fbe63989ceb7e19321376
preshared_key=0000000000000000000000000000000000000000000000000000000000000000
endpoint=[::ffff:192.0.2.1]:1
`

func TestDecode(t *testing.T) {
	is, peers := decode(answered)
	if is.Port != 12912 || is.Key.IsZero() || len(peers) != 2 {
		t.Fatalf("read %v, %+v", is, peers)
	}
	p := peers[0]
	if p.Endpoint != netip.MustParseAddrPort("[abcd:23::33]:51820") || p.PSK == 0 || p.Keepalive != 25 || !p.handshake.Equal(time.Unix(1700000000, 5)) ||
		p.sent != 38333 || p.received != 2224 || len(p.allowed) != 2 || p.allowed[1] != netip.MustParsePrefix("fd00::/8") {
		t.Errorf("read %+v", p)
	}
	if p := peers[1]; p.Endpoint != netip.MustParseAddrPort("192.0.2.1:1") || p.PSK != 0 || !p.handshake.IsZero() || len(p.allowed) != 0 {
		t.Errorf("read %+v", p)
	}
}

// TestHandshakesHaveNanoseconds: a handshake counts for a key that is younger than its second.
func TestHandshakesHaveNanoseconds(t *testing.T) {
	for lines, want := range map[string]time.Time{
		"sec=1700000000 nsec=0":                    time.Unix(1700000000, 0),
		"sec=1700000000 nsec=999999999":            time.Unix(1700000000, 999999999),
		"sec=1700000000 nsec=1000000000":           time.Unix(1700000000, 0),
		"sec=1700000000 nsec=-1":                   time.Unix(1700000000, 0),
		"sec=1700000000 nsec=18446744073709551615": time.Unix(1700000000, 0),
		"sec=0 nsec=5":                             {},
		"nsec=5":                                   {},
	} {
		text := "public_key=" + strings.Repeat("01", 32) + "\n"
		for _, line := range strings.Fields(lines) {
			name, value, _ := strings.Cut(line, "=")
			text += "last_handshake_time_" + name + "=" + value + "\n"
		}
		if _, peers := decode(text); len(peers) != 1 || !peers[0].handshake.Equal(want) {
			t.Errorf("%s: read %+v, not %s", lines, peers, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(answered)
	f.Add("public_key=00\nallowed_ip=x\nendpoint=\nlast_handshake_time_sec=99999999999999999999\nlast_handshake_time_nsec=1000000000\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, peers := decode(text)
		for _, p := range peers {
			if p.Peer.IsZero() || !p.handshake.IsZero() && p.handshake.Unix() <= 0 {
				t.Errorf("read %+v", p)
			}
			for _, a := range p.allowed {
				if !a.IsValid() {
					t.Errorf("read %s", a)
				}
			}
		}
	})
}

// TestRequestLeavesNoSecret clears a request that was not cut short.
func TestRequestLeavesNoSecret(t *testing.T) {
	r := newRequest(batchSize)
	begin := r.Bytes()
	for range batchSize {
		r.key("public_key", [32]byte{1})
		r.key("preshared_key", [32]byte{2})
		r.line("endpoint", netip.MustParseAddrPort("[2001:db8:1111:2222:3333:4444:5555:6666]:51820"))
		r.line("persistent_keepalive_interval", 65535)
	}
	if &begin[0] != &r.Bytes()[0] {
		t.Error("the request has grown")
	}
	all := r.Bytes()
	r.clear()
	for _, b := range all {
		if b != 0 {
			t.Fatal("the request still has text")
		}
	}
}
