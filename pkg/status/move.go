package status

import (
	"fmt"
	"strings"
	"time"
)

// Move is this node's move to the backend of the config.
type Move struct {
	Round int      `json:"round"` // the number of the move; each change of the backend begins another
	From  []string `json:"from"`  // the former backends that the node still has, the latest first
	// Since is when this run of the daemon began to move.
	Since time.Time `json:"since"`
	// Peers is how many peers there are, and Switched to how many of them the node sends by
	// the config's backend.
	Peers    int `json:"peers"`
	Switched int `json:"switched"`
	// Waits are the first few peers that the move waits for, and WaitCount is the number of
	// all.
	Waits     []MoveWait `json:"waits,omitempty"`
	WaitCount int        `json:"waitCount"`
}

// MoveWait is one peer that a move waits for.
type MoveWait struct {
	Key  string `json:"key"`
	Name string `json:"nodeName,omitempty"`
	Why  string `json:"why"`
}

// String names the peer, and says why the move waits for it.
func (m MoveWait) String() string {
	if m.Name == "" {
		return m.Key + ": " + m.Why
	}
	return m.Name + " (" + m.Key + "): " + m.Why
}

// move writes how far a move is, and what it waits for.
func (w writer) move(m *Move) {
	if m == nil {
		return
	}
	w.line("  moving", "from "+strings.Join(m.From, " and "), w.lasting(m.Since), fmt.Sprintf("sending to %d of %d peers by the new backend", m.Switched, m.Peers))
	for _, wait := range m.Waits {
		w.line("  waiting", wait.String())
	}
	if more := m.WaitCount - len(m.Waits); more > 0 {
		w.line("  waiting", fmt.Sprintf("%d more peers", more))
	}
}
