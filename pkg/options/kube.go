package options

import (
	"strings"

	"github.com/tulle-net/tulle/pkg/flags"
)

// Variables by which a pod's manifest identifies the pod; flannel's sets the last
// two.
const (
	nodeName     = "NODE_NAME"
	podName      = "POD_NAME"
	podNamespace = "POD_NAMESPACE"
)

// objectName reports whether a Node, pod or namespace can have a name.
func objectName(name string) bool {
	alone := func(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }
	for i := range len(name) {
		if !alone(name[i]) && (i == 0 || i == len(name)-1 || name[i] != '.' && name[i] != '-') {
			return false
		}
	}
	return 0 < len(name) && len(name) <= 253
}

// checkKube rejects flags that conflict with leases in Kubernetes, or that need them,
// and finds out which Node this is. It only warns of flags without effect, which
// flannel's users may still have.
func (o *Options) checkKube(g *flags.Given, environ []string) error {
	if !o.Kube.On {
		for name, wanted := range map[string]bool{"iface-from-node-ip": o.Uplink.FromNodeIP, "public-ip-from": o.Uplink.External} {
			if wanted {
				return &flags.Error{Flag: g.From(name), Value: g.Last(name), Why: "needs --kube-subnet-mgr"}
			}
		}
		for _, name := range g.In(kubernetes) {
			if name != "kube-subnet-mgr" {
				o.Warnings = append(o.Warnings, g.From(name)+" has no effect without --kube-subnet-mgr")
			}
		}
		o.Kube = Kube{}
		return nil
	}
	mode := g.From("kube-subnet-mgr")
	switch {
	case o.Embedded.On:
		return &flags.Error{Flag: g.From("etcd-embedded"), Why: "conflicts with " + mode, Fix: "keep one of the two"}
	case g.Has("node-id"):
		return &flags.Error{Flag: g.From("node-id"), Why: "conflicts with " + mode + ", where the Node identifies a host", Fix: "use --node-name or " + nodeName}
	case o.Uplink.FromNodeIP && (g.Has("iface") || g.Has("iface-regex") || g.Has("iface-can-reach")):
		return &flags.Error{Flag: g.From("iface-from-node-ip"), Why: "conflicts with another flag that chooses the interface", Fix: "keep one of them"}
	}
	for _, name := range g.In(store) {
		o.Warnings = append(o.Warnings, g.From(name)+" has no effect with "+mode)
	}
	variables := make(map[string]string)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if _, again := variables[name]; !again {
			variables[name] = value
		}
	}
	o.Kube.NodeName, o.Kube.PodName, o.Kube.PodNamespace = o.Node.Name, variables[podName], variables[podNamespace]
	if o.Kube.NodeName == "" {
		o.Kube.NodeName = variables[nodeName]
	}
	o.Node = Node{}
	if o.Command == Run && o.Kube.NodeName == "" && (o.Kube.PodName == "" || o.Kube.PodNamespace == "") {
		return &flags.Error{Flag: mode, Why: "needs the name of this Node", Fix: "set " + nodeName + " by the manifest's fieldRef spec.nodeName, or set --node-name"}
	}
	for _, v := range []struct{ from, value string }{{nodeName, o.Kube.NodeName}, {podName, o.Kube.PodName}, {podNamespace, o.Kube.PodNamespace}} {
		if v.value != "" && !objectName(v.value) {
			return &flags.Error{Flag: v.from, Value: v.value, Why: "not a valid name of a Kubernetes object", Fix: "set it by fieldRef in the manifest"}
		}
	}
	return nil
}
