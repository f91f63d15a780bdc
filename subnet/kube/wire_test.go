package kube

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// largeNode is a Node as large as those of a real cluster are.
func largeNode(i int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("node-%d", i), UID: "0cb6a4d6-6d2b-4c0e-9c3c-2b1b6a3f2c11", ResourceVersion: fmt.Sprint(1000 + i),
		CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000, 0)),
		Labels:            map[string]string{"kubernetes.io/hostname": fmt.Sprintf("node-%d", i)},
		Annotations: map[string]string{
			prefix + "/kube-subnet-manager": "true", prefix + "/backend-type": "vxlan", prefix + "/public-ip": fmt.Sprintf("172.16.%d.%d", i>>8, i&255),
			prefix + "/backend-data": fmt.Sprintf(`{"VNI":1,"VtepMAC":"02:00:00:00:%02x:%02x"}`, i>>8, i&255),
			"example.org/other":      "x",
		},
	}}
	n.Spec.PodCIDR = fmt.Sprintf("10.%d.%d.0/24", 64+i>>8, i&255)
	n.Spec.PodCIDRs = []string{n.Spec.PodCIDR, fmt.Sprintf("fd00:5:0:%x::/64", i)}
	n.Annotations[prefix+"/tulle-subnets"] = strings.Join(n.Spec.PodCIDRs, ",")
	n.Status.Addresses = []corev1.NodeAddress{{Type: "Hostname", Address: n.Name}, {Type: "InternalIP", Address: "172.16.0.1"}, {Type: "ExternalIP", Address: "198.51.100.1"}}
	for j := range 50 {
		digest := strings.Repeat(fmt.Sprintf("%02x", j), 32)
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{
			Names:     []string{"registry.example.org/some/long/path/to/an/image@sha256:" + digest, fmt.Sprintf("registry.example.org/some/long/path/to/an/image:v1.%d.0-with-a-long-tag", j), "docker.example.org/another/name/of/it@sha256:" + digest},
			SizeBytes: 123456789,
		})
	}
	for _, kind := range []corev1.NodeConditionType{"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: "False", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(), Reason: "KubeletHasSufficient", Message: "kubelet has sufficient of it",
		})
	}
	return n
}

func encoded(t testing.TB, m marshaler) []byte {
	t.Helper()
	text, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// same compares what was read of a Node with what Kubernetes' own types say.
func sameNode(v *view, n *corev1.Node) error {
	var cidrs []string
	for _, c := range v.subnets() {
		cidrs = append(cidrs, string(c))
	}
	want := n.Spec.PodCIDRs
	if len(want) == 0 && n.Spec.PodCIDR != "" {
		want = []string{n.Spec.PodCIDR}
	}
	notes := make(map[string]string)
	for _, n := range v.notes {
		notes[string(n.key)] = string(n.value)
	}
	switch {
	case string(v.name) != n.Name || string(v.uid) != string(n.UID) || v.revision != revision(n.ResourceVersion):
		return fmt.Errorf("%s %s %d, want %s %s %s", v.name, v.uid, v.revision, n.Name, n.UID, n.ResourceVersion)
	case fmt.Sprint(cidrs) != fmt.Sprint(want):
		return fmt.Errorf("podCIDRs %v, want %v", cidrs, want)
	case len(notes) != len(n.Annotations) || len(notes) > 0 && fmt.Sprint(notes) != fmt.Sprint(n.Annotations):
		return fmt.Errorf("annotations %v, want %v", notes, n.Annotations)
	case len(v.addresses) != len(n.Status.Addresses):
		return fmt.Errorf("%d addresses, want %d", len(v.addresses), len(n.Status.Addresses))
	}
	for i, a := range n.Status.Addresses {
		if string(v.addresses[i].kind) != string(a.Type) || string(v.addresses[i].address) != a.Address {
			return fmt.Errorf("address %s %s, want %v", v.addresses[i].kind, v.addresses[i].address, a)
		}
	}
	return nil
}

func TestLook(t *testing.T) {
	for _, n := range []*corev1.Node{largeNode(1), {}, {Spec: corev1.NodeSpec{PodCIDR: "10.5.1.0/24"}}} {
		var v view
		if err := v.look(encoded(t, n)); err != nil {
			t.Fatal(err)
		}
		if err := sameNode(&v, n); err != nil {
			t.Error(err)
		}
	}
	var v view
	if err := v.look(encoded(t, largeNode(1))); err != nil || v.created != 1_700_000_000 {
		t.Errorf("created %d, %v", v.created, err)
	}
}

// TestHeartbeatIsFree: a Node that says nothing new costs no memory.
func TestHeartbeatIsFree(t *testing.T) {
	n := largeNode(1)
	for lean, text := range map[bool][]byte{
		false: encoded(t, n),
		true:  encoded(t, &metav1.PartialObjectMetadata{ObjectMeta: n.ObjectMeta}),
	} {
		b := testBook(t, "node-9999")
		b.holders.shape = shapeOf(parseClaim([]byte("10.0.0.0/24,fd00::/64")))
		var v view
		beat := func() {
			if err := v.look(text); err != nil {
				t.Fatal(err)
			}
			v.lean = lean
			b.take(others, &v)
		}
		beat()
		if b.nodes[n.Name].held {
			t.Errorf("lean %t: it is not believed", lean)
		}
		_, _, changed := b.ownNode()
		if n := testing.AllocsPerRun(100, beat); n > 0 {
			t.Errorf("lean %t: %v allocations", lean, n)
		}
		select {
		case <-changed:
			t.Errorf("lean %t: somebody was woken", lean)
		default:
		}
	}
}

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

// smallNode is one that a fuzzer gets somewhere with.
func smallNode(i int) *corev1.Node {
	n := largeNode(i)
	n.Status.Images, n.Status.Conditions = nil, n.Status.Conditions[:1]
	return n
}

func FuzzLook(f *testing.F) {
	f.Add(encoded(f, smallNode(1)))
	f.Add(encoded(f, &corev1.Node{}))
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, text []byte) {
		var v view
		wrong := v.look(text)
		b := testBook(t, "node-1")
		if wrong == nil {
			b.take(others, &v)
		}
		var s status
		_ = s.look(text)
		_, _, _ = unwrap(text)
		var n corev1.Node
		if n.Unmarshal(text) != nil {
			return // what is refused there may be stepped over here
		}
		again := encoded(t, &n) // as an API server would write it
		if err := v.look(again); err != nil {
			t.Fatalf("not read: %v", err)
		}
		if err := sameNode(&v, &n); err != nil {
			t.Error(err)
		}
	})
}

func FuzzStreams(f *testing.F) {
	f.Add(wrap(f, "NodeList", &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []corev1.Node{*smallNode(1), *smallNode(2)}}))
	f.Add(append(frame(f, "ADDED", "Node", smallNode(1)), frame(f, "ERROR", "Status", refusalOf(410, "gone"))...))
	f.Add([]byte("k8s\x00\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, text []byte) {
		items := 0
		revision, _, err := readList(bytes.NewReader(text), "NodeList", func([]byte) error { items++; return nil })
		if err == nil && revision == "" {
			t.Error("a list without a resourceVersion")
		}
		events := frames{from: bufio.NewReader(bytes.NewReader(text))}
		for {
			if _, _, err := events.next(); err != nil {
				break
			}
		}
	})
}

func TestReadList(t *testing.T) {
	list := &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "77", Continue: "more"}}
	for i := range 10 {
		list.Items = append(list.Items, *largeNode(i))
	}
	text := wrap(t, "NodeList", list)
	seen := 0
	read := func(text []byte) (string, string, error) {
		seen = 0
		return readList(bytes.NewReader(text), "NodeList", func(item []byte) error {
			var v view
			if err := v.look(item); err != nil {
				return err
			}
			err := sameNode(&v, &list.Items[seen])
			seen++
			return err
		})
	}
	if revision, more, err := read(text); revision != "77" || more != "more" || err != nil || seen != 10 {
		t.Errorf("%q, %q, %v, %d items", revision, more, err, seen)
	}
	// The half of a list is an error, wherever it ends.
	for n := range text {
		if n%997 > 30 {
			continue
		}
		if _, _, err := read(text[:n]); err == nil {
			t.Fatalf("%d of %d bytes are taken for a list", n, len(text))
		}
	}
	if _, _, err := read([]byte("{}{}")); !errors.Is(err, errMessage) {
		t.Errorf("JSON: %v", err)
	}
	for _, other := range [][]byte{wrap(t, "Status", refusalOf(500, "no")), wrap(t, "PodList", &corev1.PodList{ListMeta: list.ListMeta})} {
		if _, _, err := read(other); !errors.Is(err, errMessage) {
			t.Errorf("another object: %v", err)
		}
	}
	failure := errors.New("no")
	if _, _, err := readList(bytes.NewReader(text), "NodeList", func([]byte) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("an item that is refused: %v", err)
	}
}

func TestFrames(t *testing.T) {
	text := append(frame(t, "ADDED", "Node", largeNode(1)), frame(t, "DELETED", "Node", largeNode(2))...)
	events := frames{from: bufio.NewReader(bytes.NewReader(text))}
	for i, want := range []string{"ADDED", "DELETED"} {
		kind, object, err := events.next()
		if kind != want || err != nil {
			t.Fatalf("%q, %v", kind, err)
		}
		what, object, err := unwrap(object)
		var v view
		if what != "Node" || err != nil || v.look(object) != nil || sameNode(&v, largeNode(i+1)) != nil {
			t.Errorf("%q, %v, %s", what, err, v.name)
		}
	}
	if _, _, err := events.next(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	events.from.Reset(bytes.NewReader(text[:100]))
	if _, _, err := events.next(); err != io.ErrUnexpectedEOF {
		t.Errorf("the half of one: %v", err)
	}
	events.from.Reset(strings.NewReader("\xff\xff\xff\xff"))
	if _, _, err := events.next(); !errors.Is(err, errMessage) {
		t.Errorf("one of 4 GB: %v", err)
	}
}

// BenchmarkHeartbeat is what a Node costs that says nothing new.
func BenchmarkHeartbeat(b *testing.B) {
	book := testBook(b, "node-9999")
	text := frame(b, "MODIFIED", "Node", largeNode(1))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	from := bytes.NewReader(nil)
	events := frames{from: bufio.NewReaderSize(from, 32<<10)}
	var v view
	for b.Loop() {
		from.Reset(text)
		events.from.Reset(from)
		_, object, err := events.next()
		if err != nil {
			b.Fatal(err)
		}
		if _, object, err = unwrap(object); err != nil {
			b.Fatal(err)
		}
		if err := v.look(object); err != nil {
			b.Fatal(err)
		}
		book.take(others, &v)
	}
}
