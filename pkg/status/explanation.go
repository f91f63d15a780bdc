package status

import "net/netip"

// Explanation is what the network does with an address.
type Explanation struct {
	Address netip.Addr `json:"address"`
	// Code is the answer, and Verdict the same in a sentence. Key is the lease that
	// the address belongs to.
	Code    Code   `json:"code"`
	Verdict string `json:"verdict"`
	Key     string `json:"key,omitempty"`
	Node    string `json:"nodeName,omitempty"`
	// Path is how the kernel would send there now.
	Path string `json:"path,omitempty"`
	// Tunnelled is why packets take the tunnel, with the backend cloud.
	Tunnelled string      `json:"tunnelled,omitempty"`
	Probes    *PeerProbes `json:"probes,omitempty"` // of the node that has the address
	// Sessions are the encrypted ones with that node, with the backend wireguard.
	Sessions []Session `json:"sessions,omitempty"`
	Entries  []Entry   `json:"entries,omitempty"`
}

// Code is the answer of an Explanation.
type Code string

// The codes.
const (
	InPlace    Code = "in-place"   // a peer's, and all that leads there is in place
	Local      Code = "local"      // in this node's own subnet
	Outside    Code = "outside"    // not in the network
	Unleased   Code = "unleased"   // in the network, but in no node's subnet
	Starting   Code = "starting"   // this node has no lease yet and knows no peers
	Rejected   Code = "rejected"   // in a lease that this node rejects
	Unroutable Code = "unroutable" // a peer's, and nothing can lead there
	Incomplete Code = "incomplete" // a peer's, and a route or neighbour is missing or wrong
	Bypassed   Code = "bypassed"   // a peer's, but another route or rule comes first
)

// Codes lists all codes.
func Codes() []Code {
	return []Code{InPlace, Local, Outside, Unleased, Starting, Rejected, Unroutable, Incomplete, Bypassed}
}

// OK reports whether nothing is missing: packets to the address go where they
// should, and the last probe of the node that has it came back.
func (e Explanation) OK() bool {
	switch e.Code {
	case Local, Outside, Unleased:
		return true
	case InPlace:
		return e.Probes == nil || e.Probes.Problem == ""
	}
	return false
}

// Entry is one thing that the kernel should hold for an address, or does.
type Entry struct {
	Want string `json:"want,omitempty"` // "" for what should not be there
	Has  string `json:"has,omitempty"`  // "" for what is missing
	OK   bool   `json:"ok"`
}
