package e2e

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/tabletest"
	"github.com/tulle-net/tulle/subnet"
)

var wireguardTime = flag.Duration("wireguard", 0, "how long TestBenchWireGuard sends each kind of traffic; prints a table of tulle-wireguard and of wireguard-go by itself")

// TestBenchWireGuard measures WireGuard in user space between pods on two hosts of this
// machine, as tulled sets it up and as wireguard-go does by itself, in turns. Without
// -wireguard it only shows that the measurement works.
func TestBenchWireGuard(t *testing.T) {
	t.Parallel()
	rounds, each, rates, to := 1, 100*time.Millisecond, []int{1000}, t.Output()
	program := tulled
	if *wireguardTime > 0 {
		rounds, each, rates, to = *trafficRounds, *wireguardTime, []int{10000, 20000, 40000, 60000, 80000}, io.Writer(os.Stdout)
		program = clustertest.Command{Argv: []string{installed(t)}}
		build(t, "github.com/tulle-net/tulle/pkg/cmd/tulle-wireguard", filepath.Join(filepath.Dir(program.Argv[0]), "tulle-wireguard"))
	}
	alone := filepath.Join(t.TempDir(), "wireguard-go")
	build(t, "golang.zx2c4.com/wireguard", alone)

	w, ours := tunnelOf(t, `{"Type": "wireguard", "Implementation": "userspace"}`, program, "Kernel in sync with all peers")
	ours.name = "tulle-wireguard"
	plain, other := wireguardGo(t, alone)
	for range rounds {
		for _, p := range []*path{ours, other} {
			p.measure(t, each, rates)
		}
	}
	report := [][]string{{"Path", "one stream, Gbit/s", "processors", "eight streams, Gbit/s", "processors", "small packets a second, none lost", "processors", "peak memory of sender / receiver, MiB"}}
	for _, p := range []struct {
		*path
		from, to int // processes
	}{{ours, w.wireguardOf(w.Hosts[0], "tulle-wg").PID, w.wireguardOf(w.Hosts[1], "tulle-wg").PID}, {other, plain[0].PID, plain[1].PID}} {
		memory := fmt.Sprintf("%d / %d", peakOf(t, p.from)>>20, peakOf(t, p.to)>>20)
		report = append(report, slices.Concat([]string{p.name}, cells(p.one, 1e9, 2), cells(p.eight, 1e9, 2), cells(p.small, 1, 0), []string{memory}))
	}
	fmt.Fprintf(to, "\n%s, %d processors, %d rounds of %s for each measurement. Minimum / median / maximum.\n\n%s",
		runtime.Version(), runtime.NumCPU(), rounds, each, tabletest.Markdown(report...))
	fmt.Fprintf(to, "\nMedian of tulle-wireguard, divided by that of wireguard-go: %.2f in one stream, %.2f in eight. tulled had %d MiB.\n",
		median(ours.one)/median(other.one), median(ours.eight)/median(other.eight), w.daemons[w.Hosts[0]].PeakMemory()>>20)
}

func build(t *testing.T, source, binary string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-o", binary, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", source, err, out)
	}
}

func median(of []carried) float64 {
	var rates []float64
	for _, c := range of {
		rates = append(rates, c.rate)
	}
	slices.Sort(rates)
	return rates[len(rates)/2]
}

// peakOf returns the most memory that a process had.
func peakOf(t *testing.T, pid int) (bytes int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			bytes = kib << 10
		}
	}
	if bytes == 0 {
		t.Fatalf("no peak in %s", text)
	}
	return bytes
}

// wireguardGo returns the path between pods on two hosts that run wireguard-go by itself,
// and the programs on both.
func wireguardGo(t *testing.T, program string) (programs [2]*clustertest.Daemon, p *path) {
	t.Helper()
	c := clustertest.New(t, clustertest.Options{Hosts: 2})
	private, public := [2]string{}, [2]string{}
	for i := range private {
		key, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		private[i], public[i] = hex.EncodeToString(key.Bytes()), hex.EncodeToString(key.PublicKey().Bytes())
	}
	for i, h := range c.Hosts {
		peer := c.Hosts[1-i]
		env := fmt.Sprintf("FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.%d.1/24\nFLANNEL_MTU=1420\nFLANNEL_IPMASQ=false\n", h.Number)
		if err := os.WriteFile(h.SubnetFile, []byte(env), 0o644); err != nil {
			t.Fatal(err)
		}
		// A session of its own, as tulled's has: the kernel shares processors between sessions.
		programs[i] = h.Start(clustertest.Command{Argv: []string{"setsid", program, "-f", "wg0"}, Env: []string{"LOG_LEVEL=silent", "GOGC=100", "GOMEMLIMIT=off"}})
		configure(t, filepath.Join(h.Dir, "run/wireguard/wg0.sock"), fmt.Sprintf("set=1\nprivate_key=%s\nlisten_port=51820\npublic_key=%s\nendpoint=%s:51820\nallowed_ip=10.5.%d.0/24\n\n",
			private[i], public[1-i], peer.Addr[subnet.IPv4], peer.Number))
		h.NS.IP(t, fmt.Sprintf("addr add 10.5.%d.0/32 dev wg0", h.Number))
		h.NS.IP(t, "link set wg0 up")
		h.NS.IP(t, fmt.Sprintf("route add 10.5.%d.0/24 dev wg0", peer.Number))
		h.NS.Sysctl(t, "net/ipv4/ip_forward", "1")
		h.AddPod()
	}
	from, to := c.Hosts[0].Pods[0], c.Hosts[1].Pods[0]
	c.Reach(from, to)
	return programs, &path{name: "wireguard-go by itself", from: from.NS, to: to.NS, address: to.Addr[subnet.IPv4].String()}
}

// configure sends a request to a program as soon as it has its socket.
func configure(t *testing.T, socket, request string) {
	t.Helper()
	kerneltest.Eventually(t, patience, func() error {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, request); err != nil {
			return err
		}
		answer := make([]byte, len("errno=0\n\n"))
		if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "errno=0\n\n" {
			return fmt.Errorf("the answer is %q, %w", answer, err)
		}
		return nil
	})
}
