package wgkey

import (
	"fmt"
	"math"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// Step is how far the replacement of a node's key has come. In all steps but None, the
// node offers its peers a second tunnel with the old key.
type Step uint8

const (
	// None is the step of a node that does not replace its key.
	None Step = iota
	// Move waits until the peers send through the second tunnel.
	Move
	// Publish waits until the store has the new key. The first device still has the old one.
	Publish
	// Return waits until the peers send through the first tunnel, which has the new key.
	Return
)

// steps are the steps' names, in files and for people.
var steps = [...]string{None: "none", Move: "move", Publish: "publish", Return: "return"}

func (s Step) String() string {
	if int(s) < len(steps) {
		return steps[s]
	}
	return fmt.Sprintf("step(%d)", uint8(s))
}

// Steps returns the names of the steps of a rotation.
func Steps() []string { return steps[Move:] }

const (
	// leastStay is the shortest time for Move and Return. WireGuard repeats a handshake
	// after five seconds, so it tries three within it.
	leastStay = 15 * time.Second
	// settle is how long all peers that are alive must have been where a step wants them.
	// A peer looks every second where it should be.
	settle = 10 * time.Second
	// limit is how long Move and Return wait for peers that are alive.
	limit = time.Hour
	// maxSkew is how far in the future a date may lie.
	maxSkew = 24 * time.Hour
)

// Facts decide about the next step.
type Facts struct {
	Now     time.Time     // by the clock of the day
	MaxAge  time.Duration // of a key; 0 is none
	Request string        // identifies the last request of a person; "" is none
	// Known reports that the complete list of peers is known.
	Known bool
	// Published reports that the store has what the present step publishes.
	Published bool
	// Here is for how long, by the monotonic clock, the present step has lasted and what it
	// publishes has been in the store.
	Here time.Duration
	// Settled is for how long no peer that is alive was elsewhere; 0 if one is.
	Settled time.Duration
}

// Next returns the step that is due, and why. It returns the present step if none is.
func (k Keys) Next(f Facts) (next Step, why string) {
	switch k.Step {
	case None:
		switch {
		case !f.Known || !f.Published: // the peers could not learn of it
		case f.Request != "" && f.Request != k.Served:
			return Move, "requested"
		case k.Due(f.Now, f.MaxAge):
			return Move, "age"
		}
	case Move:
		if why := f.passed(); f.Published && why != "" {
			return Publish, why
		}
	case Publish:
		if f.Published {
			return Return, "the store has the new key"
		}
	case Return:
		if why := f.passed(); why != "" {
			return None, why
		}
	}
	return k.Step, ""
}

// passed returns why a step that waits for peers is over, or "".
func (f Facts) passed() string {
	switch {
	case !f.Known || f.Here < leastStay:
		return ""
	case f.Settled >= settle:
		return "all peers have followed"
	case f.Here >= limit:
		return fmt.Sprintf("waited %s for peers that do not follow", limit)
	}
	return ""
}

// Due reports whether the key is so old that it must be replaced. Nodes that made their
// keys on one day replace them on different days: at an age between seven eighths of most
// and most, by the public key. A date in the future proves nothing.
func (k Keys) Due(now time.Time, most time.Duration) bool {
	if most <= 0 || k.Made.IsZero() {
		return false
	}
	b := k.Current.Public().Bytes()
	early := time.Duration(float64(most) / 8 * float64(b[0]) / math.MaxUint8)
	return now.Sub(k.Made) >= most-early
}

// Misdated reports whether the key's date lies in the future, so that its age is unknown.
func (s State) Misdated(now time.Time) bool { return s.Made.Sub(now) > maxSkew }

// State is what others may know of a node's keys.
type State struct {
	Step Step
	// Device is the key of the first device, Published the one that peers learn first.
	// They differ in the step Publish.
	Device, Published netstate.PublicKey
	// Second is the key of the second device. It is zero in the step None.
	Second netstate.PublicKey
	// Successor is the key that replaces the present one. It is zero in the step None.
	Successor netstate.PublicKey
	// Made is when the newest key in use was made; zero if unknown.
	Made time.Time
	// Began is when the rotation began, and Since when its present step did; zero in None.
	Began, Since time.Time
}

// State returns what others may know of the keys.
func (k Keys) State() State {
	old, next := k.Current.Public(), k.Successor.Public()
	s := State{Step: k.Step, Device: old, Published: old, Made: k.Made, Began: k.Began, Since: k.Since, Successor: next}
	switch k.Step {
	case Move:
		s.Second = old
	case Publish:
		s.Second, s.Published = old, next
	case Return:
		s.Second, s.Published, s.Device, s.Made = old, next, next, k.Began
	}
	return s
}
