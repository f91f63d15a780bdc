package status

import (
	"fmt"
	"strings"
	"time"
)

// Rotation is the replacement of this node's WireGuard key.
type Rotation struct {
	Step      string    `json:"step"`
	Began     time.Time `json:"began"`
	Since     time.Time `json:"since"`     // when the step began
	Successor string    `json:"successor"` // the public key that follows
	// Waits are the first few peers that the step waits for, and WaitCount is the number of
	// all.
	Waits     []string `json:"waits,omitempty"`
	WaitCount int      `json:"waitCount"`
}

// RotationSteps returns the steps of a rotation.
func RotationSteps() []string { return []string{"move", "publish", "return"} }

// fewWaits is how many names Waits has at most.
const fewWaits = 5

// SetWaits sets the names of the peers that the step waits for.
func (r *Rotation) SetWaits(names []string) {
	r.Waits, r.WaitCount = names[:min(len(names), fewWaits)], len(names)
}

// key writes what there is to say of a node's key.
func (w writer) key(g *WireGuard) {
	words := []string{}
	if g.KeyMade != nil {
		words = append(words, "made "+w.ago(*g.KeyMade))
	}
	if r := g.Rotation; r != nil {
		words = append(words, "being replaced "+w.lasting(r.Began), fmt.Sprintf("step %s %s", r.Step, w.lasting(r.Since)))
		if r.WaitCount > 0 {
			words = append(words, fmt.Sprintf("waits for %d peers: %s", r.WaitCount, strings.Join(r.Waits, " ")))
		}
	}
	w.line("  key", words...)
	if g.KeyProblem != "" {
		w.line("  problem", g.KeyProblem)
	}
}
