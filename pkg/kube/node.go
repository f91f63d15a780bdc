package kube

import (
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Nodes is the path of the Nodes.
const Nodes = "api/v1/nodes"

// The conditions of Nodes that we use. NetworkUnavailable keeps pods off a Node.
const (
	Ready              = "Ready"
	NetworkUnavailable = "NetworkUnavailable"
)

// Node holds the fields of a Node that we use. Its byte slices point into the message,
// and are valid as long as the message is.
type Node struct {
	Name, UID []byte
	// ResourceVersion is opaque: a precondition repeats it byte for byte.
	ResourceVersion []byte
	// Revision is the resourceVersion as a number. It is 0 if that is not a number; an
	// API server on etcd always sends one.
	Revision int64
	Created  int64 // in seconds
	// Deleting reports that the Node was deleted, but finalizers still keep it.
	Deleting    bool
	Annotations []Annotation
	ProviderID  []byte
	Addresses   []Address
	// Ready and Unavailable are the conditions Ready and NetworkUnavailable.
	Ready, Unavailable NodeCondition
	// Boot is the kernel's ID of the host's last boot, as the kubelet reports it.
	Boot []byte
	// Machine is the firmware's ID of the machine, as the kubelet reports it.
	Machine []byte
	// MetadataOnly reports that only its metadata was read.
	MetadataOnly bool

	podCIDR  []byte
	podCIDRs [][]byte
	// metadata and spec are read again for what few callers need.
	metadata, spec []byte
}

// Address is one address of a Node's host.
type Address struct{ Kind, Address []byte }

// NodeCondition is a condition of a Node. It is empty if the Node has no such condition.
type NodeCondition struct {
	Status, Reason, Message []byte
	// Since is when the status changed last, in seconds; 0 is not known.
	Since int64
}

// Label is one label of an object.
type Label struct{ Key, Value []byte }

// Annotation is one annotation of an object.
type Annotation struct{ Key, Value []byte }

// Taint is one taint of a Node.
type Taint struct {
	Key, Value, Effect []byte
	// Added is when it was added, in seconds; 0 is not known.
	Added int64
}

// TaintSpec is a taint in a patch. A patch replaces all taints of a Node.
type TaintSpec struct {
	Key       string `json:"key"`
	Value     string `json:"value,omitempty"`
	Effect    string `json:"effect"`
	TimeAdded string `json:"timeAdded,omitempty"`
}

// Spec returns the taint for a patch. It shares no memory with the message.
func (t Taint) Spec() TaintSpec {
	s := TaintSpec{Key: string(t.Key), Value: string(t.Value), Effect: string(t.Effect)}
	if t.Added != 0 {
		s.TimeAdded = time.Unix(t.Added, 0).UTC().Format(time.RFC3339)
	}
	return s
}

// Version returns the state that n was read in, as the precondition of a write.
func (n *Node) Version() Version { return Version{string(n.UID), string(n.ResourceVersion)} }

// WholeNode is the format of whole Nodes.
var WholeNode = Protobuf("Node", func(message []byte, to *Node) error { return to.decode(message, false) })

// NodeMetadata is the format of Nodes' metadata, a fourteenth of a whole Node.
var NodeMetadata = Metadata(func(message []byte, to *Node) error { return to.decode(message, true) })

// PodCIDRs returns the Node's podCIDRs.
func (n *Node) PodCIDRs() [][]byte {
	if len(n.podCIDRs) == 0 && len(n.podCIDR) > 0 {
		return [][]byte{n.podCIDR}
	}
	return n.podCIDRs
}

// Labels returns the Node's labels. It reads them from the message.
func (n *Node) Labels() (all []Label) {
	_ = walk(n.metadata, func(field protowire.Number, value []byte, _ uint64) error { // decode has walked it without an error
		if field == metaLabels {
			if key, value, err := pair(value); err == nil {
				all = append(all, Label{key, value})
			}
		}
		return nil
	})
	return all
}

// Taints returns the Node's taints. It reads them from the message.
func (n *Node) Taints() (all []Taint) {
	_ = walk(n.spec, func(field protowire.Number, value []byte, _ uint64) error { // decode has walked it without an error
		if field == 5 {
			all = append(all, taint(value))
		}
		return nil
	})
	return all
}

func taint(message []byte) (t Taint) {
	_ = walk(message, func(field protowire.Number, value []byte, _ uint64) error { // an unreadable field stays empty
		switch field {
		case 1:
			t.Key = value
		case 2:
			t.Value = value
		case 3:
			t.Effect = value
		case 4:
			return walk(value, func(field protowire.Number, _ []byte, number uint64) error {
				if field == 1 {
					t.Added = int64(number)
				}
				return nil
			})
		}
		return nil
	})
	return t
}

// decode reads a Node into n.
func (n *Node) decode(message []byte, metadataOnly bool) error {
	*n = Node{podCIDRs: n.podCIDRs[:0], Addresses: n.Addresses[:0], Annotations: n.Annotations[:0], MetadataOnly: metadataOnly}
	return walk(message, func(field protowire.Number, value []byte, _ uint64) error {
		switch field {
		case 1:
			n.metadata = value
			return walk(value, n.decodeMetadata)
		case 2:
			n.spec = value
			return walk(value, n.decodeSpec)
		case 3:
			return walk(value, n.decodeStatus)
		}
		return nil
	})
}

func (n *Node) decodeMetadata(field protowire.Number, value []byte, _ uint64) error {
	switch field {
	case metaName:
		n.Name = value
	case metaUID:
		n.UID = value
	case metaRevision:
		n.ResourceVersion, n.Revision = value, Revision(string(value))
	case metaCreated:
		return walk(value, func(field protowire.Number, _ []byte, number uint64) error {
			if field == 1 {
				n.Created = int64(number)
			}
			return nil
		})
	case metaDeleted:
		n.Deleting = true
	case metaAnnotations:
		key, value, err := pair(value)
		n.Annotations = append(n.Annotations, Annotation{key, value})
		return err
	}
	return nil
}

func (n *Node) decodeSpec(field protowire.Number, value []byte, _ uint64) error {
	switch field {
	case 1:
		n.podCIDR = value
	case 3:
		n.ProviderID = value
	case 7:
		n.podCIDRs = append(n.podCIDRs, value)
	}
	return nil
}

func (n *Node) decodeStatus(field protowire.Number, value []byte, _ uint64) error {
	switch field {
	case 4:
		return n.condition(value)
	case 5:
		kind, address, err := pair(value) // encoded like an entry of a map
		n.Addresses = append(n.Addresses, Address{kind, address})
		return err
	case 7:
		return walk(value, func(field protowire.Number, value []byte, _ uint64) error {
			switch field {
			case 2:
				n.Machine = value
			case 3:
				n.Boot = value
			}
			return nil
		})
	}
	return nil
}

func (n *Node) condition(value []byte) error {
	var c, other NodeCondition
	to := &other
	err := walk(value, func(field protowire.Number, value []byte, _ uint64) error {
		switch field {
		case 1:
			switch string(value) {
			case Ready:
				to = &n.Ready
			case NetworkUnavailable:
				to = &n.Unavailable
			default:
				to = &other
			}
		case 2:
			c.Status = value
		case 4:
			return walk(value, func(field protowire.Number, _ []byte, number uint64) error {
				if field == 1 {
					c.Since = int64(number)
				}
				return nil
			})
		case 5:
			c.Reason = value
		case 6:
			c.Message = value
		}
		return nil
	})
	*to = c
	return err
}

// Revision returns a resourceVersion as a number, or 0 if it is not one.
func Revision(revision string) int64 {
	n, err := strconv.ParseInt(revision, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
