package kube

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// readNodes reads a list of Nodes, and compares it with want.
func readNodes(text []byte, want []corev1.Node) (m listMeta, seen int, err error) {
	m, err = protobufWire{}.list(bytes.NewReader(text), "NodeList", func(item []byte) error {
		var n Node
		if err := n.decode(item, false); err != nil {
			return err
		}
		err := sameNode(&n, &want[seen])
		seen++
		return err
	})
	return m, seen, err
}

func TestProtobufList(t *testing.T) {
	list := &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "77", Continue: "more"}}
	for i := range 3 {
		list.Items = append(list.Items, *apitest.LargeNode(i))
	}
	text := apitest.Wrap(t, "NodeList", list)
	if m, seen, err := readNodes(text, list.Items); m != (listMeta{"77", "more"}) || err != nil || seen != 3 {
		t.Errorf("%+v, %v, %d items", m, err, seen)
	}
	// An incomplete list is an error, wherever it ends.
	for n := range text {
		if n%997 > 30 {
			continue
		}
		if _, _, err := readNodes(text[:n], list.Items); err == nil {
			t.Fatalf("%d of %d bytes are taken for a list", n, len(text))
		}
	}
	if _, _, err := readNodes([]byte("{}{}"), nil); !errors.Is(err, ErrUnreadable) {
		t.Errorf("JSON: %v", err)
	}
	for _, other := range [][]byte{
		apitest.Wrap(t, "Status", apitest.Refusal(500, "no")), apitest.Wrap(t, "PodList", &corev1.PodList{ListMeta: list.ListMeta}),
	} {
		if _, _, err := readNodes(other, nil); !errors.Is(err, errKind) {
			t.Errorf("another object: %v", err)
		}
	}
	failure := errors.New("no")
	if _, err := (protobufWire{}).list(bytes.NewReader(text), "NodeList", func([]byte) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("an item that is refused: %v", err)
	}
}

func TestProtobufEvents(t *testing.T) {
	text := append(apitest.Frame(t, "ADDED", "Node", apitest.LargeNode(1)), apitest.Frame(t, "DELETED", "Node", apitest.LargeNode(2))...)
	read := func(text string) events { return protobufWire{}.events(strings.NewReader(text)) }
	events := read(string(text))
	for i, want := range []string{"ADDED", "DELETED"} {
		what, message, err := events.next()
		if what != want || err != nil {
			t.Fatalf("%q, %v", what, err)
		}
		kind, object, err := protobufWire{}.open(message)
		var n Node
		if kind != "Node" || err != nil || n.decode(object, false) != nil || sameNode(&n, apitest.LargeNode(i+1)) != nil {
			t.Errorf("%q, %v, %s", kind, err, n.Name)
		}
		if revision, err := (protobufWire{}).revision(object); string(revision) != fmt.Sprint(1001+i) || err != nil {
			t.Errorf("at %s, %v", revision, err)
		}
	}
	if _, _, err := events.next(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	if _, _, err := read(string(text[:100])).next(); err != io.ErrUnexpectedEOF {
		t.Errorf("half of one: %v", err)
	}
	if _, _, err := read("\xff\xff\xff\xff").next(); !errors.Is(err, ErrUnreadable) {
		t.Errorf("one of 4 GB: %v", err)
	}
}

// TestClaimedLengthCostsNoMemory: a short message that claims to be long costs little
// memory.
func TestClaimedLengthCostsNoMemory(t *testing.T) {
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sent := protobufWire{}.events(strings.NewReader("\x00\xff\xff\xff and no more"))
			if _, _, err := sent.next(); err != io.ErrUnexpectedEOF {
				b.Fatal(err)
			}
		}
	})
	if n := result.AllocedBytesPerOp(); n > 1<<20 || result.N == 0 {
		t.Errorf("%d bytes for 12", n)
	}
}

func FuzzProtobufStreams(f *testing.F) {
	f.Add(apitest.Wrap(f, "NodeList", &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []corev1.Node{*apitest.SmallNode(1), *apitest.SmallNode(2)}}))
	f.Add(append(apitest.Frame(f, "ADDED", "Node", apitest.SmallNode(1)), apitest.Frame(f, "ERROR", "Status", apitest.Refusal(410, "gone"))...))
	f.Add([]byte("k8s\x00\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, text []byte) { fuzzStreams(t, protobufWire{}, text) })
}

// fuzzStreams reads text as a list and as events.
func fuzzStreams(t *testing.T, w wire, text []byte) {
	m, err := w.list(bytes.NewReader(text), "NodeList", func([]byte) error { return nil })
	if err == nil && m.revision == "" {
		t.Error("a list without a resourceVersion")
	}
	events := w.events(bytes.NewReader(text))
	for {
		_, message, err := events.next()
		if err != nil {
			break
		}
		kind, object, err := w.open(message)
		if err != nil {
			continue
		}
		_, _ = w.revision(object)
		_, _ = w.endsList(object)
		if kind == statusKind {
			_, _ = w.status(object)
		}
	}
}
