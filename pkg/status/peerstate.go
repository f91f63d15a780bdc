package status

// PeerState sums up how a peer is.
type PeerState string

// The states of peers, each worse than those before it.
const (
	InSync         PeerState = "in-sync"
	OutOfSync      PeerState = "out-of-sync" // the kernel does not hold all that leads there
	ProbesFail     PeerState = "probes-fail"
	UnroutablePeer PeerState = "unroutable" // nothing can lead there
)

// PeerStates lists all states.
func PeerStates() []PeerState { return []PeerState{InSync, OutOfSync, ProbesFail, UnroutablePeer} }

// StateOf returns the state of a peer. A peer is unroutable only if no route leads
// there: over a part of the routes packets may arrive, which the probes show.
func StateOf(p Peer) PeerState {
	switch {
	case p.Problem != "" && p.By == "":
		return UnroutablePeer
	case p.Probes != nil && p.Probes.Cause != "":
		return ProbesFail
	case p.InSync && p.Problem == "":
		return InSync
	}
	return OutOfSync
}
