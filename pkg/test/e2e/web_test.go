package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// browser sends HTTP requests to a host's daemon, from the host itself.
type browser struct {
	*world
	client *http.Client
	base   string
}

func (b *browser) get(path string) (code int, text string, err error) {
	r, err := b.client.Get(b.base + path)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return r.StatusCode, string(body), err
}

// shows waits until a path answers with a code and all parts.
func (b *browser) shows(path string, code int, parts ...string) {
	b.t.Helper()
	b.eventually(func() error {
		got, text, err := b.get(path)
		if err != nil {
			return err
		}
		for _, part := range parts {
			if got != code || !strings.Contains(text, part) {
				return fmt.Errorf("%s answers %d, and %q is not in\n%.3000s", path, got, part, text)
			}
		}
		return nil
	})
}

// TestPagesShowWorkAndProblems requests the pages of a daemon that works, and of one
// that has problems.
func TestPagesShowWorkAndProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 1, dualConfig)
	one, two := w.Hosts[0], w.Hosts[1]
	w.start(one, "--healthz-port=10256", "--pprof")
	w.start(two)
	b := w.browse(one)

	b.shows("/healthz", 200, "ok")
	b.shows("/readyz?verbose", 200, "[+]loop ok", "[+]lease ok: 10.5.", "[+]peers ok: 1 peer", "readyz check passed")
	b.shows("/metrics", 200, "\ntulle_healthy 1\n", "\ntulle_ready 1\n", "\ntulle_peers 1\n", "\ntulle_kernel_in_sync 1\n", "\ntulle_network_mtu_bytes 1430\n",
		`tulle_ready_check{check="kernel"} 1`, `tulle_kernel_healed_total{kind="route"} `, "tulle_lease_renewed_timestamp_seconds ", "go_goroutines ", "process_open_fds ")
	b.shows("/statusz", 200, "<h1>Ready</h1>", "host2", "tunnel", "default route")
	b.shows("/debug/pprof/goroutine?debug=1", 200, "goroutine profile")
	b.shows("/debug/pprof/cmdline", 403, "secrets")

	// The network works without its store.
	w.etcd.Member(0).Stop()
	b.shows("/statusz", 200, "Ready, with problems", "store")
	b.shows("/readyz", 200, "readyz check passed")
	b.shows("/metrics", 200, "\ntulle_ready 1\n")
	if _, text, err := b.get("/metrics"); err != nil || strings.Contains(text, "\ntulle_store_failing 0\n") {
		t.Errorf("a store that is away does not fail: %v\n%s", err, text)
	}
	w.etcd.Member(0).Restart()
	b.shows("/metrics", 200, "\ntulle_store_failing 0\n")

	// A foreign route occupies the place of a peer's: the peer has a problem, the node
	// has none.
	one.NS.IP(t, "route add 10.5.77.0/24 dev eth0")
	w.lend(leasesKey+"10.5.77.0-24", `{"PublicIP":"198.18.0.77","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"3a:00:00:00:00:01"}}`)
	b.shows("/metrics", 200, "\ntulle_ready 1\n", "\ntulle_kernel_objects_failing 1\n", "\ntulle_peers 2\n")
	b.shows("/statusz", 200, "Ready, with problems", "refuses 1 object, first route 10.5.77.0/24", "not in sync", "10.5.77.0/24")
	one.NS.IP(t, "route del 10.5.77.0/24 dev eth0")
	// That host does not exist, so probes fail.
	b.shows("/statusz", 200, "Ready, with problems", "fail for 1 peer, 10.5.77.0-24: its host does not answer", "<b>1</b> probes fail")
	b.shows("/metrics", 200, "\ntulle_ready 1\n", `tulle_peers_probe_failing{cause="down"} 1`, "\ntulle_probe_round_trip_seconds_count ")
	w.delete(leasesKey + "10.5.77.0-24")

	// A foreign device occupies the place of the node's own: the node is not ready
	// until that device is deleted.
	d := w.daemons[one]
	d.Freeze()
	if _, _, err := (&browser{w, &http.Client{Transport: b.client.Transport, Timeout: time.Second}, b.base}).get("/healthz"); err == nil {
		t.Error("a frozen daemon answers")
	}
	one.NS.IP(t, "link del tulle.1")
	one.NS.IP(t, "link add other type vxlan id 1 dstport 8472 local "+two.Addr[subnet.IPv4].String())
	d.Thaw()
	b.shows("/readyz", 503, "[-]kernel failed: the kernel refuses link tulle.1", "readyz check failed")
	b.shows("/statusz", 200, "Not ready")
	b.shows("/healthz", 200, "ok")
	one.NS.IP(t, "link del other")
	b.shows("/readyz", 200, "readyz check passed")

	// A file cannot be written.
	d.Freeze()
	remove(t, one.SubnetFile)
	one.FillDisk()
	d.Thaw()
	b.shows("/readyz", 503, "[-]files failed: "+one.SubnetFile)
	b.shows("/metrics", 200, "\ntulle_files_failing 1\n", "\ntulle_ready 0\n")
	one.FreeDisk()
	b.shows("/readyz", 200, "readyz check passed")
	b.shows("/statusz", 200, "<h1>Ready</h1>")
	if code := d.Stop(); code != 0 {
		t.Errorf("it exited with code %d", code)
	}
}
