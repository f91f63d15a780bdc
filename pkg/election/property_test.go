package election

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// chaos are random faults of a lab.
type chaos struct {
	*lab
	random  *rand.Rand
	dice    *rand.Rand // for requests; used inside Do
	all     []*replica
	started int
	worst   time.Duration // how long a request may take
	lost    int           // answers in a hundred
	refused int           // requests in a hundred
}

// TestNeverTwoLeaders: under random faults of the server, the network and the replicas
// no two terms overlap, and a replica leads soon after the faults are over.
func TestNeverTwoLeaders(t *testing.T) {
	terms := 0
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inLab(t, func(l *lab) {
				c := &chaos{lab: l, random: rand.New(rand.NewPCG(seed, 15)), dice: rand.New(rand.NewPCG(seed, 16))}
				c.run()
				terms += len(l.terms.all())
			})
		})
	}
	if terms < 200 {
		t.Errorf("%d terms: the faults are too few", terms)
	}
}

func (c *chaos) run() {
	c.f.Hold, c.f.Lose, c.f.Refuse = c.hold, c.lose, c.refuse
	for range 2 + c.random.IntN(4) {
		c.start()
	}
	c.leads(time.Second, c.all...)
	for range 60 {
		c.wait(time.Duration(c.random.Int64N(int64(8 * time.Second))))
		c.fault()
	}
	c.f.Do(func() { c.worst, c.lost, c.refused = 0, 0, 0 })
	for _, r := range c.all {
		r.heal()
	}
	c.f.Cut()
	c.leads(75*time.Second, c.all...) // the holder may be deaf
	c.wait(time.Minute)
	if n := leading(c.all); n != 1 {
		c.Errorf("%d replicas lead", n)
	}
}

// start starts a replica.
func (c *chaos) start() {
	c.started++
	deaf, unclean := c.random.IntN(2) == 0, c.random.IntN(3) == 0
	offset := time.Duration(c.random.Int64N(int64(48*time.Hour))) - 24*time.Hour
	c.all = append(c.all, c.replica(fmt.Sprint("host-", c.started), func(r *replica) {
		r.deaf, r.unclean = deaf, unclean
		r.clock = func() time.Time { return time.Now().Add(offset) }
	}))
}

// fault makes one fault begin or end.
func (c *chaos) fault() {
	one := c.all[c.random.IntN(len(c.all))]
	switch c.random.IntN(12) {
	case 0, 1:
		one.cutOff()
	case 2, 3:
		for _, r := range c.all {
			r.heal()
		}
	case 4:
		worst := time.Duration(c.random.Int64N(int64(20 * time.Second)))
		c.f.Do(func() { c.worst = worst })
	case 5:
		lost, refused := c.random.IntN(100), c.random.IntN(60)
		c.f.Do(func() { c.lost, c.refused = lost, refused })
	case 6:
		c.f.Do(func() { c.worst, c.lost, c.refused = 0, 0, 0 })
	case 7:
		c.f.Cut()
	case 8:
		if c.f.Object(path) != nil && !one.deaf && len(c.all) > 1 {
			c.all = without(c.all, one)
			one.cancel()
			c.start()
		}
	case 9:
		c.remove()
	case 10:
		// The holder is removed by hand.
		c.f.Do(func() {
			if o := c.f.Stored(path); o != nil {
				o["spec"].(map[string]any)["holderIdentity"] = ""
				c.f.ChangeObject("MODIFIED", path, o)
			}
		})
	case 11:
		c.f.Compact()
	}
}

// remove deletes the Lease, if all replicas know it.
func (c *chaos) remove() {
	for _, r := range c.all {
		if !r.Status().Known {
			return
		}
	}
	c.f.Do(func() {
		if o := c.f.Stored(path); o != nil {
			c.f.ChangeObject("DELETED", path, o)
		}
	})
}

// heal lets a replica's requests arrive again.
func (r *replica) heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = nil
}

// The server calls these with its faults unlocked.

func (c *chaos) hold(*http.Request) <-chan struct{} {
	worst, _, _, n := c.chance()
	if worst == 0 {
		return nil
	}
	held := make(chan struct{})
	time.AfterFunc(time.Duration(n*float64(worst)), func() { close(held) })
	return held
}

func (c *chaos) lose(*http.Request) bool {
	_, lost, _, n := c.chance()
	return n*100 < float64(lost)
}

func (c *chaos) refuse(*http.Request) *metav1.Status {
	_, _, refused, n := c.chance()
	if n*100 >= float64(refused) {
		return nil
	}
	codes := []int32{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusConflict, http.StatusUnauthorized}
	return apitest.Refusal(codes[int(n*1000)%len(codes)], "no")
}

// chance returns the present faults, and a random number from 0 to 1.
func (c *chaos) chance() (worst time.Duration, lost, refused int, n float64) {
	c.f.Do(func() { worst, lost, refused, n = c.worst, c.lost, c.refused, c.dice.Float64() })
	return worst, lost, refused, n
}
