package kube

import (
	"context"
	"fmt"

	"github.com/tulle-net/tulle/pkg/kube"
)

// node fetches one Node whole.
func (s *Store) node(ctx context.Context, name string) (*kube.Node, error) {
	n := new(kube.Node)
	err := kube.Get(ctx, s.client, kube.Path(kube.Nodes, name), kube.WholeNode, n)
	return named(n, name, err)
}

// patch changes a Node's status or metadata, and returns the Node after the change. A
// kubelet, and flannel, may change no more of their own Node.
func (s *Store) patch(ctx context.Context, name string, kind kube.PatchKind, change []byte) (*kube.Node, error) {
	n := new(kube.Node)
	err := kube.Patch(ctx, s.client, kube.Path(kube.Nodes, name, "status"), kind, change, kube.WholeNode, n)
	return named(n, name, err)
}

// named returns an error unless n is the Node of that name.
func named(n *kube.Node, name string, err error) (*kube.Node, error) {
	if err == nil && string(n.Name) != name {
		err = fmt.Errorf("%w: Node %.50q in place of %s", kube.ErrUnreadable, n.Name, name)
	}
	if err != nil {
		return nil, err
	}
	return n, nil
}

// pod is the part of a pod that matters.
type pod struct {
	Spec struct{ NodeName string }
}

// nodeOf returns the name of the Node that a pod runs on.
func (s *Store) nodeOf(ctx context.Context, namespace, name string) (string, error) {
	var p pod
	err := kube.Get(ctx, s.client, kube.Path("api/v1/namespaces", namespace, "pods", name), kube.JSON[pod]("Pod"), &p)
	if err == nil && p.Spec.NodeName == "" {
		err = fmt.Errorf("pod %s/%s is on no Node", namespace, name)
	}
	return p.Spec.NodeName, err
}
