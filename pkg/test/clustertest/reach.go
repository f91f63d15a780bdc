package clustertest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// round is how long Reach waits for answers before it repeats the requests that have
// none.
const round = 200 * time.Millisecond

// Reach waits until a pod answers another in every family that both have. The packets
// have the smaller of the pods' MTUs and must not be fragmented.
func (c *Cluster) Reach(from, to *Pod) {
	c.t.Helper()
	c.reach(map[*Pod][]*Pod{from: {to}})
}

// Matrix waits until every pod of the cluster answers every other, as Reach
// does.
func (c *Cluster) Matrix() {
	c.t.Helper()
	var all []*Pod
	for _, h := range c.Hosts {
		all = append(all, h.Pods...)
	}
	pairs := make(map[*Pod][]*Pod)
	for _, from := range all {
		for _, to := range all {
			if from != to {
				pairs[from] = append(pairs[from], to)
			}
		}
	}
	c.reach(pairs)
}

func (c *Cluster) reach(pairs map[*Pod][]*Pod) {
	c.t.Helper()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		wrong []string
	)
	deadline := time.Now().Add(patience)
	for from, to := range pairs {
		for _, f := range subnet.Families {
			wg.Go(func() {
				if err := from.reach(to, f, deadline); err != nil {
					mu.Lock()
					defer mu.Unlock()
					wrong = append(wrong, err.Error())
				}
			})
		}
	}
	wg.Wait()
	if len(wrong) > 0 {
		slices.Sort(wrong)
		c.t.Fatal(some(wrong))
	}
}

// reach sends requests to pods until each has answered once. The error names those that
// have not.
func (p *Pod) reach(to []*Pod, f subnet.Family, deadline time.Time) error {
	missing := make(map[uint64]*Pod)
	for i, peer := range to {
		if p.Addr[f].IsValid() && peer.Addr[f].IsValid() {
			missing[uint64(i)] = peer
		}
	}
	if len(missing) == 0 {
		return nil
	}
	sock, err := newEchoSocket(p.NS.Path, f)
	if err != nil {
		return err
	}
	defer sock.close()
	buffer := make([]byte, maxPacket)
	for {
		refused := make(map[uint64]error)
		for i, peer := range missing {
			if err := sock.send(peer.Addr[f], i, min(p.MTU, peer.MTU)); err != nil {
				refused[i] = err
			}
		}
		if err := sock.deadline(time.Now().Add(round)); err != nil {
			return err
		}
		for len(missing) > 0 {
			i, _, err := sock.receive(buffer)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return fmt.Errorf("%s: wait for answers: %w", p, err)
			}
			delete(missing, i)
		}
		if len(missing) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return p.unreached(missing, refused, f)
		}
	}
}

func (p *Pod) unreached(missing map[uint64]*Pod, refused map[uint64]error, f subnet.Family) error {
	var who []string
	for _, i := range slices.Sorted(maps.Keys(missing)) {
		peer := fmt.Sprintf("%s (%s)", missing[i], missing[i].Addr[f])
		if err := refused[i]; err != nil {
			peer = fmt.Sprintf("%s (%s: %v)", missing[i], missing[i].Addr[f], err)
		}
		who = append(who, peer)
	}
	return fmt.Errorf("%s does not reach over %s: %s", p, f, some(who))
}

// some returns a list, or the beginning of a long one.
func some(list []string) string {
	const most = 5
	if len(list) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
	}
	return strings.Join(list, ", ")
}
