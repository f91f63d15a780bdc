package probe

import (
	"encoding/binary"
	"flag"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

var (
	floodTime = flag.Duration("flood", time.Second, "how long TestFlood floods from each source")
	floodFrom = flag.String("flood-from", "", "for the process that floods: the source")
)

const (
	floodRate = 50000 // requests a second
	floodLoad = 0.05  // limit, of a core
)

// TestFlood floods a responder with well-formed requests, and probes it as a peer
// does. It measures the processor time of this process, which sends the probes, too;
// another process floods.
func TestFlood(t *testing.T) {
	if *floodFrom != "" {
		flood(t, netip.MustParseAddr(*floodFrom))
		return
	}
	here, peer := ip("10.5.1.0"), ip("10.5.2.0")
	a, b := kerneltest.NewNS(t, "flooding"), kerneltest.NewNS(t, "flooded")
	kerneltest.Join(t, a, "eth0", b, "eth0")
	for ns, lines := range map[*kerneltest.NS][]string{
		a: {"addr add 198.18.9.1/24 dev eth0", "addr add 10.5.2.0/32 dev lo", "route add 10.5.1.0/32 via 198.18.9.2"},
		b: {"addr add 198.18.9.2/24 dev eth0", "addr add 10.5.1.0/32 dev lo", "route add default via 198.18.9.1"},
	} {
		for _, line := range lines {
			ns.IP(t, line)
		}
	}
	r, tag := Responder{Port: 8479}, NewTag("here")
	defer r.Close()
	b.Do(t, func() error {
		r.Set([]netip.Addr{here}, tag)
		return nil
	})
	peers := make([]netip.Addr, 200)
	for i := range peers {
		peers[i] = netip.AddrFrom4([4]byte{10, 5, byte(i + 2), 0})
	}
	r.Admit(peers)
	quiet := 0.0
	for _, c := range []struct{ name, from string }{
		{"no flood", ""},
		{"a stranger's address", "198.19.255.255"}, {"a container's address", "10.5.2.7"}, {"an unused first address", "10.5.250.0"}, {"a peer's address", "10.5.3.0"}, {"the probing peer's address", "10.5.2.0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := a.Command(os.Args[0], "-test.run=^TestFlood$", "-flood-from="+c.from, "-flood="+floodTime.String())
			cmd.Stderr = os.Stderr
			out, ended := []byte(nil), make(chan error, 1)
			began, before := time.Now(), used(t)
			go func() {
				if c.from == "" {
					ended <- nil
					return
				}
				var err error
				out, err = cmd.Output()
				ended <- err
			}()
			asked, answered := 0, 0
			a.Do(t, func() error {
				for time.Since(began) < *floodTime {
					asked++
					if asks(5*time.Second, peer, here, r.Port, UDP, tag) == nil {
						answered++
					}
					<-time.After(20 * time.Millisecond)
				}
				return nil
			})
			load := float64(used(t)-before) / float64(time.Since(began))
			if err := <-ended; err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			t.Logf("%.1f%% of a core, %d of %d probes answered; %s", 100*load, answered, asked, firstLine(out))
			if c.from == "" {
				quiet = load
			}
			if load-quiet > floodLoad {
				t.Errorf("the flood costs %.1f%% of a core", 100*(load-quiet))
			}
			if answered < asked {
				t.Errorf("%d of %d probes are answered", answered, asked)
			}
		})
	}
}

func firstLine(b []byte) string {
	for i, c := range b {
		if c == '\n' {
			return string(b[:i])
		}
	}
	return string(b)
}

// used returns the processor time of this process.
func used(t *testing.T) time.Duration {
	t.Helper()
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// flood sends requests under a source address, at floodRate.
func flood(t *testing.T, from netip.Addr) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	to := ip("10.5.1.0")
	body := newRequest(request, 1, small-headers(to), NewTag("elsewhere"))
	b := make([]byte, 28, 28+len(body))
	b[0], b[8], b[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(b[2:], uint16(28+len(body)))
	copy(b[12:], from.AsSlice())
	copy(b[16:], to.AsSlice())
	binary.BigEndian.PutUint16(b[20:], 40000)
	binary.BigEndian.PutUint16(b[22:], 8479)
	binary.BigEndian.PutUint16(b[24:], uint16(8+len(body)))
	b = append(b, body...)
	began, sent := time.Now(), 0
	for time.Since(began) < *floodTime {
		for due := int(time.Since(began).Seconds() * floodRate); sent < due; sent++ {
			if err := unix.Sendto(fd, b, 0, &unix.SockaddrInet4{Addr: to.As4()}); err != nil && err != unix.ENOBUFS {
				t.Fatal(err)
			}
		}
		<-time.After(time.Millisecond)
	}
	_, _ = os.Stdout.WriteString(strconv.Itoa(int(float64(sent)/time.Since(began).Seconds())) + " requests a second\n")
}
