package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/subnet"
)

// field is one of the network's annotations on a Node.
type field int

const (
	managed field = iota // "true" on a Node that takes part
	backendType
	backendData
	backendV6Data
	publicIP
	publicIPv6
	ownPart // tulle's, unknown to flannel
	claimed // likewise
	// People write the following ones.
	overwriteIP
	overwriteIPv6
	nodeIP
	nodeIPv6
	// A controller writes this one. Its name does not depend on the network's prefix.
	routed
	fields
)

var names = [fields]string{
	"kube-subnet-manager", "backend-type", "backend-data", "backend-v6-data", "public-ip", "public-ipv6", "tulle", "tulle-subnets",
	"public-ip-overwrite", "public-ipv6-overwrite", "node-public-ip", "node-public-ipv6", "",
}

// written is the number of annotations that a node writes itself. They come first.
const written = overwriteIP

// The fields that exist once per family.
var (
	dataFields      = subnet.Pair[field]{backendData, backendV6Data}
	publicFields    = subnet.Pair[field]{publicIP, publicIPv6}
	overwriteFields = subnet.Pair[field]{overwriteIP, overwriteIPv6}
	nodeFields      = subnet.Pair[field]{nodeIP, nodeIPv6}
)

// annotations holds the full names.
type annotations struct {
	prefix []byte
	names  [fields]string
}

var prefixes = regexp.MustCompile(`^([a-z0-9_-]+\.)+[a-z0-9_-]+/([a-z0-9_-]+-)?$`)

// newAnnotations accepts the prefixes that flannel accepts.
func newAnnotations(prefix string) (annotations, error) {
	whole := prefix
	if !strings.Contains(whole, "/") {
		whole += "/"
	}
	if !strings.HasSuffix(whole, "/") && !strings.HasSuffix(whole, "-") {
		whole += "-"
	}
	if !prefixes.MatchString(whole) {
		return annotations{}, fmt.Errorf("%.100q is not an annotation prefix; use one like flannel.alpha.coreos.com or example.org/blue", prefix)
	}
	a := annotations{prefix: []byte(whole)}
	for f, name := range names {
		a.names[f] = whole + name
	}
	return a, nil
}

// values are the values of a Node's annotations; an absent one is nil.
type values [fields][]byte

func (a annotations) of(v *kube.Node) (all values) {
	for _, n := range v.Annotations {
		if string(n.Key) == subnet.NoticeAnnotation {
			all[routed] = n.Value
		}
		rest, ok := bytes.CutPrefix(n.Key, a.prefix)
		if !ok {
			continue
		}
		for f, name := range names {
			if string(rest) == name && name != "" {
				all[f] = n.Value
				if n.Value == nil {
					all[f] = []byte{}
				}
			}
		}
	}
	return all
}

// ownValue is tulle's own annotation, as JSON.
type ownValue struct {
	NodeID   string          `json:",omitempty"`
	NodeName string          `json:",omitempty"`
	MTU      int             `json:",omitempty"`
	Move     json.RawMessage `json:",omitempty"`
}

// longest is the size limit of one published annotation, in bytes.
const longest = 16 << 10

// attrs returns what a node publishes. The error wraps subnet.ErrValue.
func (all *values) attrs() (subnet.Attrs, error) {
	a := subnet.Attrs{BackendType: subnet.BackendName(all[backendType])}
	for _, value := range all[:claimed] {
		if len(value) > longest {
			return subnet.Attrs{}, fmt.Errorf("%w: an annotation of %d bytes, more than the %d allowed", subnet.ErrValue, len(value), longest)
		}
	}
	for f := range subnet.Families {
		text := all[publicFields[f]]
		if text != nil {
			ip, err := netip.ParseAddr(string(text))
			if err != nil {
				return subnet.Attrs{}, fmt.Errorf("%w: %s %.50q is not an address", subnet.ErrValue, names[publicFields[f]], text)
			}
			if !ip.IsUnspecified() {
				a.PublicIP[f] = ip
			}
		}
		data := all[dataFields[f]]
		if len(data) == 0 || string(data) == "null" {
			continue
		}
		compact, err := json.Marshal(json.RawMessage(data))
		if err != nil {
			return subnet.Attrs{}, fmt.Errorf("%w: %s is not JSON", subnet.ErrValue, names[dataFields[f]])
		}
		a.BackendData[f] = string(compact)
	}
	if text := all[ownPart]; text != nil {
		var own ownValue
		if err := json.Unmarshal(text, &own); err != nil {
			return subnet.Attrs{}, fmt.Errorf("%w: %s is not JSON as tulle writes it", subnet.ErrValue, names[ownPart])
		}
		a.Node = subnet.Node{ID: own.NodeID, Name: own.NodeName, MTU: own.MTU}
		var err error
		if a.Move, err = subnet.CompactMove(own.Move); err != nil {
			return subnet.Attrs{}, err
		}
	}
	if err := a.Validate(); err != nil {
		return subnet.Attrs{}, err
	}
	return a, nil
}

// texts are the annotations that a node wants on its Node; nil means absent.
type texts [written]*string

// publish returns attrs as flannel writes them: missing backend data as null, and a
// missing IPv4 address as 0.0.0.0. The caller adds the claim.
func publish(a subnet.Attrs) (texts, error) {
	if err := a.Validate(); err != nil {
		return texts{}, err
	}
	yes := "true"
	t := texts{managed: &yes, backendType: &a.BackendType}
	for f, ip := range a.PublicIP {
		data := a.BackendData[f]
		if data == "" && !ip.IsValid() {
			continue
		}
		if data == "" {
			data = "null"
		}
		t[dataFields[f]] = &data
		if !ip.IsValid() && subnet.Family(f) == subnet.IPv4 {
			ip = netip.IPv4Unspecified()
		}
		if ip.IsValid() {
			text := ip.String()
			t[publicFields[f]] = &text
		}
	}
	if a.Node != (subnet.Node{}) || a.Move != "" {
		own, err := json.Marshal(ownValue{a.Node.ID, a.Node.Name, a.Node.MTU, json.RawMessage(a.Move)})
		if err != nil {
			return texts{}, err
		}
		text := string(own)
		t[ownPart] = &text
	}
	return t, nil
}

// change returns a JSON merge patch that turns now into want. The patch applies only
// to the Node with that uid. It is nil if nothing differs.
func (a annotations) change(want texts, now *values, uid string) ([]byte, error) {
	differ := make(map[string]*string)
	for f, text := range want {
		there := now[f]
		if text == nil && there != nil || text != nil && (there == nil || string(there) != *text) {
			differ[a.names[f]] = text
		}
	}
	if len(differ) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "annotations": differ}})
}

// addresses reads one address for each family from annotations that people write. It
// ignores an invalid one, and returns an error for it.
func (all *values) addresses(from subnet.Pair[field]) (ips subnet.Pair[netip.Addr], err error) {
	for f, field := range from {
		if len(all[field]) == 0 {
			continue
		}
		ip, e := netip.ParseAddr(string(all[field]))
		if e != nil || ip.Is4In6() || ip.Zone() != "" || subnet.FamilyOf(ip) != subnet.Family(f) {
			err = fmt.Errorf("the annotation %s %.50q is not an %s address; write one, or remove it", names[field], all[field], subnet.Family(f))
			continue
		}
		ips[f] = ip
	}
	return ips, err
}

// parseCIDRs reads podCIDRs, at most one per family. The error wraps subnet.ErrKey.
func parseCIDRs(texts [][]byte) (subnets subnet.Pair[netip.Prefix], err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(string(text))
		if err != nil || p != p.Masked() || p.Addr().Is4In6() {
			return subnet.Pair[netip.Prefix]{}, fmt.Errorf("%w: the podCIDR %.50q is not a subnet", subnet.ErrKey, text)
		}
		f := subnet.FamilyOf(p.Addr())
		if subnets[f].IsValid() {
			return subnet.Pair[netip.Prefix]{}, fmt.Errorf("%w: two podCIDRs of one family, %s and %s", subnet.ErrKey, subnets[f], p)
		}
		subnets[f] = p
	}
	return subnets, nil
}
