package kerneltest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netns"
)

// NS is a network namespace that represents a host, with its loopback up. It ends
// with its test.
type NS struct {
	Name string
	Path string // for kernel.New
}

var created atomic.Int64

// NewNS creates a namespace. That needs root; without it the test fails.
func NewNS(t testing.TB, label string) *NS {
	t.Helper()
	n := &NS{Name: fmt.Sprintf("tulle-%s-%d-%d", label, os.Getpid(), created.Add(1))}
	n.Path = "/run/netns/" + n.Name
	run(t, "ip", "netns", "add", n.Name)
	t.Cleanup(func() {
		// The kernel removes a namespace's devices only some time after it.
		if out, err := exec.Command("ip", "netns", "del", n.Name).CombinedOutput(); err != nil {
			t.Errorf("remove namespace %s: %v: %s", n.Name, err, out)
		}
	})
	n.IP(t, "link set lo up")
	return n
}

// IP runs an ip command, such as "addr add 198.18.0.1/24 dev eth0", inside.
func (n *NS) IP(t testing.TB, command string) string {
	t.Helper()
	return run(t, append([]string{"ip", "-n", n.Name}, strings.Fields(command)...)...)
}

// Bridge runs a command of iproute2's bridge inside.
func (n *NS) Bridge(t testing.TB, command string) string {
	t.Helper()
	return run(t, append([]string{"bridge", "-n", n.Name}, strings.Fields(command)...)...)
}

// Command returns a command that runs inside.
func (n *NS) Command(args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", n.Name}, args...)...)
}

// Sysctl sets a setting, by its path below /proc/sys.
func (n *NS) Sysctl(t testing.TB, path, value string) {
	t.Helper()
	n.Do(t, func() error { return os.WriteFile("/proc/sys/"+path, []byte(value), 0) })
}

// Setting reads a setting.
func (n *NS) Setting(t testing.TB, path string) (value string) {
	t.Helper()
	n.Do(t, func() error {
		b, err := os.ReadFile("/proc/sys/" + path)
		value = strings.TrimSpace(string(b))
		return err
	})
	return value
}

// Do runs f inside, on a thread of its own. An error of f fails the test.
func (n *NS) Do(t testing.TB, f func() error) {
	t.Helper()
	if err := inside(n.Name, f); err != nil {
		t.Fatalf("in namespace %s: %v", n.Name, err)
	}
}

// Dialer returns a function that connects from inside a named namespace.
func Dialer(name string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = inside(name, func() error {
			conn, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
}

func inside(name string, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		done <- func() error {
			ns, err := netns.GetFromName(name)
			if err != nil {
				return err
			}
			defer ns.Close()
			if err := netns.Set(ns); err != nil {
				return err
			}
			return f()
		}()
	}()
	return <-done
}

// Ping waits until address answers an echo request of size bytes with the
// don't-fragment bit set, sent from source if that is not empty.
func (n *NS) Ping(t testing.TB, source, address string, size int) {
	t.Helper()
	args := []string{"ping", "-n", "-c1", "-W1", "-M", "do", "-s", fmt.Sprint(size)}
	if source != "" {
		args = append(args, "-I", source)
	}
	var out []byte
	Eventually(t, 10*time.Second, func() error {
		var err error
		if out, err = n.Command(append(args, address)...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	})
}

// Print returns the links, addresses, routes, neighbours, forwarding entries and
// rules of the namespace's kernel, without their counters of time.
func (n *NS) Print(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	for _, command := range []string{"-d -o link", "-o addr", "route show table all", "-6 route show table all", "neigh show nud permanent", "rule", "-6 rule"} {
		fmt.Fprintf(&b, "# ip %s\n%s", command, n.IP(t, command))
	}
	fmt.Fprintf(&b, "# bridge fdb\n%s", n.Bridge(t, "fdb"))
	return b.String()
}

// Join connects two namespaces by a cable; the ends are called name in each.
func Join(t testing.TB, a *NS, nameA string, b *NS, nameB string) {
	t.Helper()
	a.IP(t, fmt.Sprintf("link add %s type veth peer name %s netns %s", nameA, nameB, b.Name))
	a.IP(t, "link set "+nameA+" up")
	b.IP(t, "link set "+nameB+" up")
}

// Eventually waits until f returns no error. After limit it fails the test with f's
// last error.
func Eventually(t testing.TB, limit time.Duration, f func() error) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("after %v still: %v", limit, err)
		case <-tick.C:
		}
	}
}

func run(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
