package subnet

import (
	"encoding/json"
	"slices"
	"strings"
)

// Move is what a node publishes while it moves from one backend to another, beside its
// primary backend, which Attrs.BackendType names. flannel and older versions of tulled
// ignore it.
type Move struct {
	// Round is the number of the move. A node counts it up with each change of its config.
	Round int
	// Sends are the backends by which the node sends to any peer. An empty list is its
	// primary backend alone.
	Sends []string `json:",omitempty"`
	// Offers are further backends by which the node can receive.
	Offers []Offer `json:",omitempty"`
}

// Offer is one more backend by which a node can receive.
type Offer struct {
	Type   string
	Data   json.RawMessage `json:",omitempty"` // like BackendData
	V6Data json.RawMessage `json:",omitempty"` // like BackendV6Data
	// Ready reports that the node accepts packets by this backend from all nodes but those
	// whose leases Without names by their keys.
	Ready   bool     `json:",omitempty"`
	Without []string `json:",omitempty"`
}

// Limits of a Move.
const (
	maxMove   = 12 << 10 // bytes
	maxOffers = 4
	maxRound  = 1 << 40
	// MostWithout is how many leases an Offer may name.
	MostWithout = 128
)

// Accepts reports whether the offering node accepts packets from the node whose lease
// has this key.
func (o Offer) Accepts(key string) bool { return o.Ready && !slices.Contains(o.Without, key) }

// FormatMove returns a Move as Attrs have it. The zero Move is "".
func FormatMove(m Move) string {
	if m.Round == 0 && len(m.Sends)+len(m.Offers) == 0 {
		return ""
	}
	text, err := json.Marshal(m)
	if err != nil {
		return "" // of data that is no JSON, which Validate refuses
	}
	return string(text)
}

// CompactMove returns a Move from a store as FormatMove would write it, whatever its
// spacing. The error wraps ErrValue.
func CompactMove(raw json.RawMessage) (string, error) {
	if isNull(raw) {
		return "", nil
	}
	m, err := ParseMove(string(raw))
	if err != nil {
		return "", err
	}
	for _, o := range m.Offers {
		if string(o.Data) == "null" || string(o.V6Data) == "null" {
			return "", valueError("Move has null as the data of %.50q", o.Type)
		}
	}
	return FormatMove(m), nil
}

// ParseMove reads the Move of Attrs. The text is hostile. The error wraps ErrValue.
func ParseMove(text string) (Move, error) {
	if text == "" {
		return Move{}, nil // without an allocation: nearly all leases of a large network have none
	}
	return parseMove(text)
}

func parseMove(text string) (m Move, err error) {
	if len(text) > maxMove {
		return Move{}, valueError("Move: %d bytes are more than the %d allowed", len(text), maxMove)
	}
	if json.Unmarshal([]byte(text), &m) != nil {
		return Move{}, valueError("Move is not an object as tulle writes it")
	}
	if m.Round < 0 || m.Round > maxRound {
		return Move{}, valueError("Move has the round %d", m.Round)
	}
	if len(m.Sends) > maxOffers+1 || len(m.Offers) > maxOffers {
		return Move{}, valueError("Move names more than %d backends", maxOffers)
	}
	names := slices.Clone(m.Sends)
	for i, o := range m.Offers {
		if slices.ContainsFunc(m.Offers[:i], func(p Offer) bool { return p.Type == o.Type }) {
			return Move{}, valueError("Move offers %.50q twice", o.Type)
		}
		if len(o.Without) > MostWithout {
			return Move{}, valueError("Move: Without names more than %d leases", MostWithout)
		}
		names = append(append(names, o.Type), o.Without...)
	}
	for _, name := range names {
		if name == "" || len(name) > maxName || strings.ContainsFunc(name, unprintable) {
			return Move{}, valueError("Move contains %.50q, which is no name", name)
		}
	}
	return m, nil
}

// unnamed reports whether flannel writes no type for a backend.
func unnamed(kind string) bool { return kind == "alloc" || kind == "udp" }

// Primary reports whether kind is the backend that a names as its type.
func (a *Attrs) Primary(kind string) bool {
	return a.BackendType == kind || a.BackendType == "" && unnamed(kind)
}

// Offer returns what a publishes for a backend beside the primary one.
func (a *Attrs) Offer(kind string) (o Offer, ok bool) {
	if a.Move == "" {
		return Offer{}, false
	}
	m, _ := ParseMove(a.Move) // without an error in valid Attrs
	for _, o := range m.Offers {
		if o.Type == kind {
			return o, true
		}
	}
	return Offer{}, false
}

// Speaks reports whether the node receives by a backend.
func (a *Attrs) Speaks(kind string) bool {
	if a.Primary(kind) {
		return true
	}
	_, offers := a.Offer(kind)
	return offers
}

// As returns a as a node would publish it that has only one backend. ok is false if the
// node does not have that one.
func (a Attrs) As(kind string) (as Attrs, ok bool) {
	if a.Primary(kind) {
		a.Move = ""
		return a, true
	}
	o, ok := a.Offer(kind)
	a.Move, a.BackendType = "", kind
	a.BackendData = Pair[string]{IPv4: string(o.Data), IPv6: string(o.V6Data)}
	return a, ok
}

// Round returns the number of the node's present move, or 0.
func (a *Attrs) Round() int {
	m, _ := ParseMove(a.Move) // without an error in valid Attrs
	return m.Round
}

// Sends returns the backends by which the node sends to any peer.
func (a *Attrs) Sends() []string {
	if m, _ := ParseMove(a.Move); len(m.Sends) > 0 {
		return m.Sends
	}
	return []string{a.BackendType}
}

// sharesBackend reports whether both publish one backend.
func (a *Attrs) sharesBackend(b *Attrs) bool {
	if b.Speaks(a.BackendType) {
		return true
	}
	m, _ := ParseMove(a.Move)
	return slices.ContainsFunc(m.Offers, func(o Offer) bool { return b.Speaks(o.Type) })
}
