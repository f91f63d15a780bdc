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

// field is one of the annotations that a network has on a Node.
type field int

const (
	managed field = iota // "true" where a node takes part
	backendType
	backendData
	backendV6Data
	publicIP
	publicIPv6
	ownPart // tulle's, which flannel knows nothing of
	claimed // and this
	// What follows people write.
	overwriteIP
	overwriteIPv6
	nodeIP
	nodeIPv6
	fields
)

var names = [fields]string{
	"kube-subnet-manager", "backend-type", "backend-data", "backend-v6-data", "public-ip", "public-ipv6", "tulle", "tulle-subnets",
	"public-ip-overwrite", "public-ipv6-overwrite", "node-public-ip", "node-public-ipv6",
}

// written are the first of them, which a node writes itself.
const written = overwriteIP

// Those that there is one of for each family.
var (
	dataFields      = subnet.Pair[field]{backendData, backendV6Data}
	publicFields    = subnet.Pair[field]{publicIP, publicIPv6}
	overwriteFields = subnet.Pair[field]{overwriteIP, overwriteIPv6}
	nodeFields      = subnet.Pair[field]{nodeIP, nodeIPv6}
)

// annotations are their whole names.
type annotations struct {
	prefix []byte
	names  [fields]string
}

var prefixes = regexp.MustCompile(`^([a-z0-9_-]+\.)+[a-z0-9_-]+/([a-z0-9_-]+-)?$`)

// newAnnotations takes the prefixes that flannel takes.
func newAnnotations(prefix string) (annotations, error) {
	whole := prefix
	if !strings.Contains(whole, "/") {
		whole += "/"
	}
	if !strings.HasSuffix(whole, "/") && !strings.HasSuffix(whole, "-") {
		whole += "-"
	}
	if !prefixes.MatchString(whole) {
		return annotations{}, fmt.Errorf("%.100q is not an annotation prefix; use one like flannel.alpha.coreos.com or example.org/blue (--kube-annotation-prefix)", prefix)
	}
	a := annotations{prefix: []byte(whole)}
	for f, name := range names {
		a.names[f] = whole + name
	}
	return a, nil
}

// values are what stands in a Node's annotations; what does not stand there is nil.
type values [fields][]byte

func (a annotations) of(v *kube.Node) (all values) {
	for _, n := range v.Annotations {
		rest, ok := bytes.CutPrefix(n.Key, a.prefix)
		if !ok {
			continue
		}
		for f, name := range names {
			if string(rest) == name {
				all[f] = n.Value
				if n.Value == nil {
					all[f] = []byte{}
				}
			}
		}
	}
	return all
}

// ownValue is tulle's own part, as JSON.
type ownValue struct {
	NodeID   string `json:",omitempty"`
	NodeName string `json:",omitempty"`
	MTU      int    `json:",omitempty"`
}

// longest is how much a node may publish in one annotation.
const longest = 16 << 10

// attrs reads what a node publishes. The error wraps subnet.ErrValue.
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
	}
	if err := a.Validate(); err != nil {
		return subnet.Attrs{}, err
	}
	return a, nil
}

// texts are what is to stand in a Node's annotations; nil is for what is not.
type texts [written]*string

// publish is how attrs are written, as flannel does: data that a backend has none
// of is null, and an IPv4 address that a node does not have 0.0.0.0. Which subnets
// it is for is for the caller to add.
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
	if a.Node != (subnet.Node{}) {
		own, err := json.Marshal(ownValue{a.Node.ID, a.Node.Name, a.Node.MTU})
		if err != nil {
			return texts{}, err
		}
		text := string(own)
		t[ownPart] = &text
	}
	return t, nil
}

// change is what turns into want what stands there, as a JSON merge patch of the
// Node of that uid and of no other; nil where nothing differs.
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

// addresses reads one address for each family out of annotations that people
// write. What is none is told, and counts for nothing.
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

// parseCIDRs reads podCIDRs, of which there is one a family. The error wraps
// subnet.ErrKey.
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
