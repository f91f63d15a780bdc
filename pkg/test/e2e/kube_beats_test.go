//go:build kube

package e2e

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/tabletest"
)

var (
	beatsFor   = flag.Duration("beats", 0, "with -peers: how long to send the Nodes' heartbeats")
	beatsEvery = flag.Duration("beat-every", 10*time.Second, "with -beats: interval between two heartbeats of a Node")
)

// heartbeats is the cost of the Nodes' heartbeats for a daemon.
type heartbeats struct {
	wanted   float64       // a second, if the server is fast enough
	events   int           // heartbeats that the server accepted
	lasted   time.Duration // of the accepted heartbeats
	cpu      time.Duration
	received int64
	resident []float64 // every second or so, in MiB
}

// beat sends every Node's heartbeat, as often as the server can accept it. It measures
// what the heartbeats cost a daemon, for which they change nothing.
func (c *kubeCrowd) beat(d *clustertest.Daemon, k *kernel.Kernel) heartbeats {
	c.t.Helper()
	lasts := *beatsFor
	if lasts == 0 {
		lasts = time.Second // run as a test of the benchmark
	}
	b := heartbeats{wanted: float64(c.peers) / beatsEvery.Seconds()}
	h := c.Hosts[len(c.Hosts)-1]
	cpu, received, began := d.CPU(), c.k.received(h), time.Now()
	due := time.NewTicker(time.Duration(float64(time.Second) / b.wanted))
	defer due.Stop()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	end := time.After(lasts)
	var done atomic.Int64
	work, ended := make(chan int), make(chan struct{})
	go func() {
		defer close(ended)
		c.each(work, func(n int) error {
			defer done.Add(1)
			return c.heartbeat(n)
		})
	}()
	for n, on := 0, true; on; {
		select {
		case <-due.C:
			work <- n%c.peers + 1
			n++
		case <-look.C:
			b.resident = append(b.resident, residentNow(c.t, d.PID))
		case <-end:
			on = false
		}
	}
	close(work)
	<-ended
	if c.t.Failed() {
		c.t.FailNow()
	}
	b.events, b.lasted = int(done.Load()), time.Since(began)
	b.cpu, b.received = d.CPU()-cpu, c.k.received(h)-received
	c.wantAll(k)
	return b
}

// heartbeat sends a heartbeat as a kubelet does.
func (c *kubeCrowd) heartbeat(number int) error {
	change, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditionsAt(time.Now())}})
	if err != nil {
		return err
	}
	r, err := http.NewRequest(http.MethodPatch, c.k.api.URL+nodesPath+"/"+crowdName(number)+"/status?fieldManager=kubelet", bytes.NewReader(change))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/strategic-merge-patch+json")
	r.Header.Set("Accept", "application/vnd.kubernetes.protobuf")
	a, err := c.k.api.Client().Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if _, err := io.Copy(io.Discard, a.Body); err != nil || a.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %w", a.Status, err)
	}
	return nil
}

// reportKube prints all measurements.
func (s scale) reportKube(all []*kubeMeasured) {
	fmt.Fprintf(s.to, "\n%d rounds. Times are in ms, minimum / median, unless the table says otherwise.\n", s.rounds)
	head := []string{"Nodes", "daemon", "all in the kernel", "it says so", "processor time", "peak memory, MiB", "of that its file", "20 s later, MiB", "received, MB"}
	cold := [][]string{slices.Concat([]string{"First start"}, head)}
	again := [][]string{slices.Concat([]string{"Another start"}, head)}
	beats := [][]string{{"Heartbeats", "Nodes", "daemon", "a second", "a second wanted", "bytes each", "µs each", "processor", "MB an hour", "memory, MiB", "as wanted: processor", "MB an hour"}}
	for _, m := range all {
		row := func(s kubeStart) []string {
			peak, _, file := s.memoryCells()
			var mb []float64
			for _, n := range s.received {
				mb = append(mb, float64(n)/1e6)
			}
			return []string{"vxlan", fmt.Sprint(m.peers), m.name, s.there.cell(), s.said.cell(), s.cpu.cell(), peak, file, floats(s.steady), floats(mb)}
		}
		cold = append(cold, row(m.cold))
		if len(m.again.said) > 0 {
			again = append(again, row(m.again))
		}
		b := m.beats
		if b.events == 0 {
			continue
		}
		n := float64(b.events)
		rate, each, work := n/b.lasted.Seconds(), float64(b.received)/n, b.cpu.Seconds()/n
		beats = append(beats, []string{
			"vxlan", fmt.Sprint(m.peers), m.name, fmt.Sprintf("%.0f", rate), fmt.Sprintf("%.0f", b.wanted),
			fmt.Sprintf("%.0f", each), fmt.Sprintf("%.0f", 1e6*work), fmt.Sprintf("%.2f %%", 100*b.cpu.Seconds()/b.lasted.Seconds()),
			fmt.Sprintf("%.0f", each*rate*3600/1e6), floats(b.resident),
			fmt.Sprintf("%.2f %%", 100*work*b.wanted), fmt.Sprintf("%.0f", each*b.wanted*3600/1e6),
		})
	}
	for _, rows := range [][][]string{cold, again, beats} {
		fmt.Fprintf(s.to, "\n### %s\n\n%s", rows[0][0], tabletest.Markdown(rows...))
	}
}

// floats returns the least and the median.
func floats(all []float64) string {
	if len(all) == 0 {
		return "–"
	}
	sorted := slices.Sorted(slices.Values(all))
	return fmt.Sprintf("%.1f / %.1f", sorted[0], sorted[len(sorted)/2])
}
