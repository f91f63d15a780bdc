package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

func testBook(t testing.TB, own string) *book {
	t.Helper()
	a, err := newAnnotations(prefix)
	if err != nil {
		t.Fatal(err)
	}
	b := newBook(a)
	b.name = own
	return b
}

// TestHeartbeatIsFree: a Node that says nothing new allocates nothing, and wakes no
// reader.
func TestHeartbeatIsFree(t *testing.T) {
	n := apitest.LargeNode(1)
	for name, c := range map[string]struct {
		format kube.Format[kube.Node]
		text   []byte
	}{
		"whole":         {kube.WholeNode, apitest.Encoded(t, n)},
		"metadata-only": {kube.NodeMetadata, apitest.Encoded(t, &metav1.PartialObjectMetadata{ObjectMeta: n.ObjectMeta})},
	} {
		b := testBook(t, "node-9999")
		b.holders.shape = shapeOf(parseClaim([]byte("10.0.0.0/24,fd00::/64")))
		var v kube.Node
		beat := func() {
			if err := c.format.Decode(c.text, &v); err != nil {
				t.Fatal(err)
			}
			b.take(others, &v)
		}
		beat()
		if b.nodes[n.Name].held {
			t.Errorf("%s: it is not accepted", name)
		}
		_, _, changed := b.ownNode()
		if n := testing.AllocsPerRun(100, beat); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		select {
		case <-changed:
			t.Errorf("%s: a reader was woken", name)
		default:
		}
	}
}

// FuzzBook enters any Node that can be decoded.
func FuzzBook(f *testing.F) {
	f.Add(apitest.Encoded(f, apitest.SmallNode(1)), true)
	f.Add(apitest.Encoded(f, &corev1.Node{}), false)
	f.Fuzz(func(t *testing.T, text []byte, metadataOnly bool) {
		format, v := kube.WholeNode, kube.Node{}
		if metadataOnly {
			format = kube.NodeMetadata
		}
		if format.Decode(text, &v) == nil {
			testBook(t, "node-1").take(others, &v)
		}
	})
}

// BenchmarkHeartbeat measures a Node that says nothing new.
func BenchmarkHeartbeat(b *testing.B) {
	book := testBook(b, "node-9999")
	text := apitest.Encoded(b, apitest.LargeNode(1))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	var v kube.Node
	for b.Loop() {
		if err := kube.WholeNode.Decode(text, &v); err != nil {
			b.Fatal(err)
		}
		book.take(others, &v)
	}
}
