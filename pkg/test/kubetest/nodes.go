package kubetest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// registrations is how many Nodes are created at the same time.
const registrations = 32

// Register creates Nodes in their order, many at the same time, as their kubelets do.
// Unless each is nil, it calls each after it created a Node, from several goroutines.
func (c *Cluster) Register(each func(name string), nodes ...*corev1.Node) {
	c.t.Helper()
	work := make(chan *corev1.Node)
	var workers sync.WaitGroup
	for range registrations {
		workers.Go(func() {
			for n := range work {
				if err := c.register(n); err != nil {
					c.t.Errorf("create the Node %s: %v", n.Name, err)
				} else if each != nil {
					each(n.Name)
				}
			}
		})
	}
	for _, n := range nodes {
		work <- n
	}
	close(work)
	workers.Wait()
	if c.t.Failed() {
		c.t.FailNow()
	}
}

func (c *Cluster) register(n *corev1.Node) error {
	r, err := http.NewRequest(http.MethodPost, c.URL+"/api/v1/nodes", bytes.NewReader(apitest.Wrap(c.t, "Node", n)))
	if err != nil {
		return err
	}
	const protobuf = "application/vnd.kubernetes.protobuf"
	r.Header.Set("Content-Type", protobuf)
	r.Header.Set("Accept", protobuf)
	a, err := c.client.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	said, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusCreated {
		err = fmt.Errorf("%s: %q", a.Status, said)
	}
	return err
}
