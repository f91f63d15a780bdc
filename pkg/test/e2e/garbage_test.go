package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/bits"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
)

// garbage is how many keys that a node never writes TestGarbageKeys creates.
const garbage = 50_000

// mostGarbage is how many bytes much garbage may add to a daemon's peak memory.
const mostGarbage = 64 << 20

// TestGarbageKeys fills etcd with garbage, before one daemon starts and while another runs: log
// and status name the first ten and count the rest, memory stays bounded, and the network works.
func TestGarbageKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 1, vxlan)
	tulled := unraced(t)
	start := func(h *clustertest.Host) {
		w.daemons[h] = h.Start(tulled, w.flags(h)...)
		w.daemons[h].WaitLog("Kernel in sync with all peers")
		h.AddPod()
	}
	watches, lists := w.Hosts[0], w.Hosts[1]
	start(watches)
	before := w.daemons[watches].PeakMemory()
	w.litter()
	start(lists)
	for _, h := range w.Hosts {
		w.bearsGarbage(h, garbage, before)
	}
	w.Matrix()
	w.delete(leasesKey+"garbage-", clientv3.WithPrefix())
	w.delete(leasesKey+"10.6.", clientv3.WithRange(leasesKey+"10.9/"))
	w.eventually(func() error {
		for _, h := range w.Hosts {
			var r status.Report
			if err := w.commandJSON(h, &r, "status"); err != nil || !r.Ready || r.RejectedCount != 0 {
				return fmt.Errorf("%s reports %+v: %w", h.Name, r, err)
			}
		}
		return nil
	})
}

// litter writes the garbage: keys and values that cannot be read, and leases outside the network.
func (w *world) litter() {
	w.t.Helper()
	const batch = 100 // etcd takes 128 operations at once
	attrs := `{"PublicIP":"198.18.9.9","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"3a:00:00:00:00:f0"}}`
	for first := 0; first < garbage; first += batch {
		var puts []clientv3.Op
		for i := first; i < first+batch; i++ {
			key, value := fmt.Sprintf("10.%d.%d.%d-30", 6+i>>14, i>>6&255, i<<2&255), attrs
			switch i % 3 {
			case 1:
				key = fmt.Sprintf("garbage-%d", i)
			case 2:
				value = "not JSON"
			}
			puts = append(puts, clientv3.OpPut(leasesKey+key, value))
		}
		w.ask(func(ctx context.Context) error {
			_, err := w.client.Txn(ctx).Then(puts...).Commit()
			return err
		})
	}
}

// bearsGarbage checks what much garbage costs a daemon that has read it: lines in its
// log, memory beyond that of a daemon without garbage, and bytes of its status.
func (w *world) bearsGarbage(h *clustertest.Host, count int, before int64) {
	w.t.Helper()
	w.eventually(func() error {
		var r status.Report
		if err := w.commandJSON(h, &r, "status"); err != nil || r.RejectedCount != count {
			return fmt.Errorf("%s rejects %d leases of %d: %w", h.Name, r.RejectedCount, count, err)
		}
		return nil
	})
	d := w.daemons[h]
	log, grown := d.Log(), d.PeakMemory()-before
	lines, few, more := strings.Count(log, "\n"), strings.Count(log, "Rejected a lease"), strings.Count(log, "Rejected more leases")
	text, _ := w.command(h, "status")
	report, _ := w.command(h, "status", "--output=json")
	w.t.Logf("%s: the log has %d bytes in %d lines, %d on single leases, %d on more; memory grew by %.1f MiB; status has %d bytes, %d as JSON",
		h.Name, len(log), lines, few, more, float64(grown)/(1<<20), len(text), len(report))
	if few > 10 || more == 0 || more > 1+bits.Len(uint(count)) || lines > 60 || len(log) > 16<<10 {
		w.t.Errorf("%s logged\n%.20000s", h.Name, log)
	}
	if grown > mostGarbage {
		w.t.Errorf("memory grew by %d bytes, more than %d", grown, mostGarbage)
	}
	if rest := fmt.Sprintf("%d more", count-10); len(text) > 4<<10 || !strings.Contains(text, rest) {
		w.t.Errorf("status has %d bytes; %q is not in\n%.6000s", len(text), rest, text)
	}
	var r status.Report
	if err := json.Unmarshal([]byte(report), &r); err != nil || len(report) > 12<<10 || len(r.Rejected) != 10 {
		w.t.Errorf("status as JSON has %d bytes and %d rejections, %v:\n%.20000s", len(report), len(r.Rejected), err, report)
	}
}
