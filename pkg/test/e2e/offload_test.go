package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
)

// TestOffloadIsTriedAgain runs a host whose network card breaks the checksums inside
// tunnels, and is repaired later. Its daemon disables offload, finds in a trial that
// the card is still broken, and enables offload again after the repair.
func TestOffloadIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 2, 1, `{"Network": "10.5.0.0/16", "Backend": {"Type": "vxlan", "Offload": "auto"}}`)
	here, there := w.Hosts[0], w.Hosts[1]
	const well = "1 peers probed, all answer"
	w.says(here, well)
	w.says(there, well)
	w.wantOffload(here, "on")

	here.BreakChecksums()
	w.says(here, "checksum offload disabled", "next trial in ", well)
	w.wantOffload(here, "off")
	w.Matrix()

	w.tries(here, "Tunnel still breaks checksums; disabled its checksum offload again")
	w.says(here, "checksum offload disabled", "next trial in ", "trials failed", well)
	w.wantOffload(here, "off")
	w.Matrix()

	here.RestoreChecksums()
	w.tries(here, "Checksums in the tunnel are right again; leaving its checksum offload enabled")
	w.silent(here, "checksum offload")
	w.says(here, well)
	w.wantOffload(here, "on")
	w.wantOffload(there, "on")
	w.Matrix()
}

// tries lets trials come due until one ends with line in the log. Earlier trials may
// end otherwise if the machine's load lost packets. None begins after that one: the log is
// read after the status, and no trial is due before the log has the end of all others.
func (w *world) tries(h *clustertest.Host, line string) {
	w.t.Helper()
	d := w.daemons[h]
	w.eventually(func() error {
		var r status.Report
		if err := w.commandJSON(h, &r, "status"); err != nil {
			return err
		}
		log := d.Log()
		if strings.Contains(log, line) {
			return nil
		}
		if o := r.Network.Offload; o != nil && o.Next != nil && o.Trials == strings.Count(log, "disabled its checksum offload again")+strings.Count(log, "disabled it again") {
			if due := time.Until(*o.Next).Truncate(time.Second); due > 0 {
				d.Age(due)
			}
		}
		return fmt.Errorf("%s has not logged %q, and reports %+v", d.Name, line, r.Network.Offload)
	})
}

// wantOffload checks a host's kernel for the setting of its tunnel's checksum offload.
func (w *world) wantOffload(h *clustertest.Host, want string) {
	w.t.Helper()
	k, err := kernel.New(h.NS.Path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer k.Close()
	setting := netstate.TxChecksum("tulle.1", want)
	if has, err := k.Dump(w.t.Context(), netstate.Scope{Sysctls: []string{setting.Path}}); err != nil || !slices.Contains(has, netstate.Object(setting)) {
		w.t.Errorf("%s: want %s, and the kernel has %v, %v", h.Name, setting, has, err)
	}
}
