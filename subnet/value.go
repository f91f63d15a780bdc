package subnet

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode"
)

// Limits of what a node may publish. What a store holds reaches logs, the status page
// and memory, once per peer.
const (
	maxValue = 16 << 10 // bytes of a lease's value, and of its backend's data
	maxName  = 253      // bytes of a name, as DNS has it
	maxMTU   = 65535
)

// value is Attrs as the store has them: flannel's fields in flannel's order, and ours
// in one more that flannel ignores. flannel writes a missing IPv4 address as 0.0.0.0,
// and a missing IPv6 address as null.
type value struct {
	PublicIP      *string
	PublicIPv6    *string
	BackendType   string          `json:",omitempty"`
	BackendData   json.RawMessage `json:",omitempty"`
	BackendV6Data json.RawMessage `json:",omitempty"`
	Tulle         *nodeValue      `json:",omitempty"`
}

type nodeValue struct {
	NodeID   string          `json:",omitempty"`
	NodeName string          `json:",omitempty"`
	MTU      int             `json:",omitempty"`
	Instance string          `json:",omitempty"`
	Move     json.RawMessage `json:",omitempty"`
}

// FormatAttrs returns the value of a lease, byte for byte as flannel writes it. The
// error wraps ErrValue.
func FormatAttrs(a Attrs) ([]byte, error) { return AppendAttrs(nil, a) }

// AppendAttrs appends to b what FormatAttrs returns. With room in b, it allocates
// nothing for nearly all leases. After an error, b is as it was.
func AppendAttrs(b []byte, a Attrs) ([]byte, error) {
	if err := a.Validate(); err != nil {
		return b, err
	}
	text, ok := appendWritten(b, a)
	if !ok {
		data, err := formatAttrs(a)
		if err != nil {
			return b, err
		}
		text = append(b, data...)
	}
	if n := len(text) - len(b); n > maxValue {
		return b, tooLong(n)
	}
	return text, nil
}

// formatAttrs returns the value of valid attributes, whatever characters are in them.
func formatAttrs(a Attrs) ([]byte, error) {
	none4 := netip.IPv4Unspecified().String()
	v := value{
		PublicIP:      &none4,
		BackendType:   a.BackendType,
		BackendData:   json.RawMessage(a.BackendData[IPv4]),
		BackendV6Data: json.RawMessage(a.BackendData[IPv6]),
	}
	fields := Pair[**string]{&v.PublicIP, &v.PublicIPv6}
	for f, to := range fields {
		if a.PublicIP[f].IsValid() {
			s := a.PublicIP[f].String()
			*to = &s
		}
	}
	if a.Node != (Node{}) || a.Move != "" {
		v.Tulle = &nodeValue{NodeID: a.Node.ID, NodeName: a.Node.Name, MTU: a.Node.MTU, Instance: a.Node.Instance, Move: json.RawMessage(a.Move)}
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, valueError("%v", err)
	}
	return data, nil
}

// ParseAttrs reads the value of a lease, flannel's or ours. It returns BackendData as
// FormatAttrs would write it, whatever its spacing. The error wraps ErrValue.
func ParseAttrs(text []byte) (Attrs, error) {
	if len(text) > maxValue {
		return Attrs{}, tooLong(len(text))
	}
	if a, ok := asWritten(text); ok && a.Validate() == nil {
		return a, nil
	}
	a, err := parseAttrs(text)
	if err == nil {
		err = a.Validate()
	}
	if err != nil {
		return Attrs{}, err
	}
	return a, nil
}

// parseAttrs reads a value in any valid spelling.
func parseAttrs(text []byte) (Attrs, error) {
	var v value
	if err := json.Unmarshal(text, &v); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			return Attrs{}, valueError("%s is of the wrong kind, %s", wrong.Field, wrong.Value)
		}
		return Attrs{}, valueError("not a JSON object")
	}
	a := Attrs{BackendType: v.BackendType}
	if v.Tulle != nil {
		a.Node = Node{ID: v.Tulle.NodeID, Name: v.Tulle.NodeName, MTU: v.Tulle.MTU, Instance: v.Tulle.Instance}
		var err error
		if a.Move, err = CompactMove(v.Tulle.Move); err != nil {
			return Attrs{}, err
		}
	}
	addresses := Pair[*string]{v.PublicIP, v.PublicIPv6}
	for f, s := range addresses {
		if s == nil {
			continue
		}
		ip, err := netip.ParseAddr(*s)
		if err != nil {
			return Attrs{}, valueError("%s %.50q is not an address", publicIPFields[f], *s)
		}
		if !ip.IsUnspecified() {
			a.PublicIP[f] = ip
		}
	}
	data := Pair[json.RawMessage]{v.BackendData, v.BackendV6Data}
	for f, raw := range data {
		if isNull(raw) {
			continue
		}
		written, err := json.Marshal(raw)
		if err != nil {
			return Attrs{}, valueError("%s: %v", backendDataFields[f], err)
		}
		a.BackendData[f] = string(written)
	}
	return a, nil
}

// ParseLease reads a lease from its key and value in the store. The error is a
// *LeaseError.
func ParseLease(key string, value []byte) (Lease, error) {
	subnets, err := ParseKey(key)
	if err != nil {
		return Lease{}, err
	}
	attrs, err := ParseAttrs(value)
	if err != nil {
		return Lease{}, &LeaseError{key, err}
	}
	return Lease{Subnets: subnets, Attrs: attrs}, nil
}

var (
	publicIPFields    = Pair[string]{"PublicIP", "PublicIPv6"}
	backendDataFields = Pair[string]{"BackendData", "BackendV6Data"}
)

// Validate reports whether a store can hold a: each address is of its family, the
// backend's data is JSON, names are printable, nothing is oversized. Table decides
// whether it makes a peer. The error wraps ErrValue.
func (a Attrs) Validate() error {
	for f, ip := range a.PublicIP {
		if ip.IsValid() && (ip.Is4In6() || ip.Zone() != "" || FamilyOf(ip) != Family(f)) {
			return valueError("%s %.50q is not an %s address", publicIPFields[f], ip.String(), Family(f))
		}
	}
	for f, data := range a.BackendData {
		switch {
		case len(data) > maxValue:
			return tooLong(len(data))
		case data != "" && !json.Valid([]byte(data)):
			return valueError("%s is not JSON", backendDataFields[f])
		}
	}
	if _, err := ParseMove(a.Move); err != nil {
		return err
	}
	for _, name := range []struct{ field, value string }{
		{"BackendType", a.BackendType},
		{"NodeID", a.Node.ID},
		{"NodeName", a.Node.Name},
		{"Instance", a.Node.Instance},
	} {
		switch {
		case len(name.value) > maxName:
			return valueError("%s: %d bytes are more than the %d allowed", name.field, len(name.value), maxName)
		case strings.ContainsFunc(name.value, unprintable):
			return valueError("%s %.50q is not printable", name.field, name.value)
		}
	}
	if a.Node.MTU < 0 || a.Node.MTU > maxMTU {
		return valueError("MTU %d is not between 0 and %d", a.Node.MTU, maxMTU)
	}
	return nil
}

// unprintable also matches the replacement of bytes that are not UTF-8.
func unprintable(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }

func tooLong(n int) error { return valueError("%d bytes are more than the %d allowed", n, maxValue) }

func valueError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrValue, fmt.Sprintf(format, args...))
}
