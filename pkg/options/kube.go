package options

import (
	"strings"
)

// Variables with which a pod's manifest identifies it; flannel's sets the last two.
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

// checkKube refuses what does not go together with leases in Kubernetes, or
// without, and finds out which Node this is. It only warns of flags without effect,
// which flannel's users may have left in place.
func (o *Options) checkKube(g givens, environ []string) error {
	if !o.Kube.On {
		for name, wanted := range map[string]bool{"iface-from-node-ip": o.Uplink.FromNodeIP, "public-ip-from": o.Uplink.External} {
			if wanted {
				return &Error{Flag: g.from(name), Value: g.last(name), Why: "needs --kube-subnet-mgr"}
			}
		}
		for _, f := range table {
			if f.group == kubernetes && f.name != "kube-subnet-mgr" && g.has(f.name) {
				o.Warnings = append(o.Warnings, g.from(f.name)+" has no effect without --kube-subnet-mgr")
			}
		}
		o.Kube = Kube{}
		return nil
	}
	mode := g.from("kube-subnet-mgr")
	switch {
	case o.Embedded.On:
		return &Error{Flag: g.from("etcd-embedded"), Why: "conflicts with " + mode, Fix: "keep one of the two"}
	case g.has("node-id"):
		return &Error{Flag: g.from("node-id"), Why: "conflicts with " + mode + ", where the Node identifies a host", Fix: "use --node-name or " + nodeName}
	case o.Uplink.FromNodeIP && (g.has("iface") || g.has("iface-regex") || g.has("iface-can-reach")):
		return &Error{Flag: g.from("iface-from-node-ip"), Why: "conflicts with another flag that chooses the interface", Fix: "keep one of them"}
	}
	for _, f := range table {
		if f.group == store && g.has(f.name) {
			o.Warnings = append(o.Warnings, g.from(f.name)+" has no effect with "+mode)
		}
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
		return &Error{Flag: mode, Why: "needs the name of this Node", Fix: "set " + nodeName + " by the manifest's fieldRef spec.nodeName, or set --node-name"}
	}
	for _, v := range []struct{ from, value string }{{nodeName, o.Kube.NodeName}, {podName, o.Kube.PodName}, {podNamespace, o.Kube.PodNamespace}} {
		if v.value != "" && !objectName(v.value) {
			return &Error{Flag: v.from, Value: v.value, Why: "not a valid name of a Kubernetes object", Fix: "set it by fieldRef in the manifest"}
		}
	}
	return nil
}
