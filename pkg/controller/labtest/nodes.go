package labtest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// AddNode adds a Node, after each f has changed it.
func (l *Lab) AddNode(n *corev1.Node, f ...func(*corev1.Node)) {
	for _, change := range f {
		change(n)
	}
	l.API.Do(func() { l.API.Change("ADDED", n) })
}

// ChangeNode changes a Node.
func (l *Lab) ChangeNode(name string, f func(*corev1.Node)) {
	n := l.API.Node(name).DeepCopy()
	f(n)
	l.API.Do(func() { l.API.Change("MODIFIED", n) })
}

// RemoveNode deletes a Node.
func (l *Lab) RemoveNode(name string) {
	n := l.API.Node(name).DeepCopy()
	l.API.Do(func() { l.API.Change("DELETED", n) })
}

// SetReady makes Ready the only condition of a Node.
func (l *Lab) SetReady(name string, s corev1.ConditionStatus) {
	l.ChangeNode(name, func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: s}}
	})
}

// Unavailable returns the status and the reason of a Node's condition NetworkUnavailable.
func (l *Lab) Unavailable(name string) string {
	for _, c := range l.API.Node(name).Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

// Patches counts the patches of paths that begin with that of Nodes and of.
func (l *Lab) Patches(of string) int { return l.API.Asked("PATCH " + l.API.URL + "/api/v1/nodes" + of) }

// Names returns the names of n Nodes: worker-0, worker-1 and so on.
func Names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint("worker-", i))
	}
	return all
}
