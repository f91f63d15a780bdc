package kube

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

// customs is a list of custom resources as an API server writes it: the kind comes
// after the items.
const customs = `{"apiVersion":"example.org/v1","items":[
	{"apiVersion":"example.org/v1","kind":"Custom","metadata":{"name":"a","annotations":{"example.org/note":"1"}},"spec":{"podCIDR":"10.5.1.0/24"}},
	{"metadata":{"name":"b"}}],"kind":"CustomList","metadata":{"continue":"more","resourceVersion":"77","remaining":[{}]}}`

func readCustoms(text string) (m listMeta, names string, err error) {
	format := JSON[custom]("Custom")
	var c custom
	m, err = jsonWire{}.list(strings.NewReader(text), "CustomList", func(item []byte) error {
		if err := format.decode(item, &c); err != nil {
			return err
		}
		name, text := customNote(&c)
		names += name + text + c.Spec.PodCIDR + " "
		return nil
	})
	return m, names, err
}

func TestJSONList(t *testing.T) {
	if m, names, err := readCustoms(customs); m != (listMeta{"77", "more"}) || names != "a110.5.1.0/24 b " || err != nil {
		t.Errorf("%+v, %q, %v", m, names, err)
	}
	// An incomplete list is an error, wherever it ends.
	for n := range customs {
		if _, _, err := readCustoms(customs[:n]); err == nil {
			t.Fatalf("%d of %d bytes are taken for a list", n, len(customs))
		}
	}
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"no items":             {`{"kind":"CustomList","metadata":{"resourceVersion":"7"},"items":null}`, nil},
		"of another kind":      {`{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[]}`, errKind},
		"no resourceVersion":   {`{"kind":"CustomList","items":[]}`, ErrUnreadable},
		"items are no array":   {`{"kind":"CustomList","metadata":{"resourceVersion":"7"},"items":{}}`, ErrUnreadable},
		"an item is no object": {`{"kind":"CustomList","metadata":{"resourceVersion":"7"},"items":[7]}`, ErrUnreadable},
		"no object":            {`[]`, ErrUnreadable},
		"no JSON":              {"k8s\x00", ErrUnreadable},
		"an item without end":  {`{"items":["` + strings.Repeat("x", 2*largest), ErrUnreadable},
	} {
		if _, _, err := readCustoms(c.text); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestJSONEvents(t *testing.T) {
	text := `{"type":"ADDED","object":{"kind":"Custom","metadata":{"resourceVersion":"8"}}}
{"type":"BOOKMARK","object":{"kind":"Custom","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}
{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}
`
	var w jsonWire
	events := w.events(strings.NewReader(text))
	for _, want := range []struct {
		what, kind, revision string
		ends                 bool
	}{{"ADDED", "Custom", "8", false}, {"BOOKMARK", "Custom", "9", true}, {"ERROR", "Status", "", false}} {
		what, message, err := events.next()
		if err != nil {
			t.Fatal(err)
		}
		kind, object, err := w.open(message)
		revision, _ := w.revision(object)
		ends, _ := w.endsList(object)
		if what != want.what || kind != want.kind || string(revision) != want.revision || ends != want.ends || err != nil {
			t.Errorf("%s of a %s at %s, ends %t: %v", what, kind, revision, ends, err)
		}
		if kind == statusKind {
			if s, err := w.status(object); s.code != 410 || s.message != "too old" || err != nil {
				t.Errorf("%+v, %v", s, err)
			}
		}
	}
	if _, _, err := events.next(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	if _, _, err := w.events(strings.NewReader(text[:20])).next(); err != io.ErrUnexpectedEOF {
		t.Errorf("half of one: %v", err)
	}
	if _, _, err := w.events(strings.NewReader(`{"object":"` + strings.Repeat("x", 2*largest))).next(); !errors.Is(err, ErrUnreadable) {
		t.Errorf("one without end: %v", err)
	}
}

// TestJSONKeepsNothingOfPreviousObject: an absent field does not keep the previous object's value.
func TestJSONKeepsNothingOfPreviousObject(t *testing.T) {
	format, c := JSON[custom]("Custom"), custom{}
	for _, text := range []string{`{"metadata":{"name":"a","annotations":{"x":"y"}},"spec":{"podCIDR":"z"}}`, `{"metadata":{"name":"b"}}`} {
		if err := format.decode([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
	}
	if said, _ := json.Marshal(c); string(said) != `{"metadata":{"name":"b","annotations":null},"spec":{"podCIDR":""}}` {
		t.Errorf("%s", said)
	}
}

func FuzzJSONStreams(f *testing.F) {
	f.Add([]byte(customs))
	f.Add([]byte(`{"type":"ERROR","object":{"kind":"Status","code":410,"details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}}`))
	f.Fuzz(func(t *testing.T, text []byte) { fuzzStreams(t, jsonWire{}, text) })
}

// TestUnreadableSpecKeepsNoOtherObjectBack: a ClusterCIDR's metadata is read whatever
// its spec is, and its spec keeps nothing of an object that was read before.
func TestUnreadableSpecKeepsNoOtherObjectBack(t *testing.T) {
	var c ClusterCIDR
	for _, spec := range []string{`{"perNodeHostBits":"8","ipv4":"10.0.0.0/16"}`, `[]`, `{"nodeSelector":7}`, `{"perNodeHostBits":1e99}`} {
		text := `{"metadata":{"name":"a","uid":"u","resourceVersion":"7","finalizers":["f"]},"spec":` + spec + `}`
		if err := ClusterCIDRFormat.Decode([]byte(text), &c); err != nil || c.Unreadable == "" || c.Spec != (ClusterCIDRSpec{}) || c.Metadata.Name != "a" || len(c.Metadata.Finalizers) != 1 {
			t.Errorf("%s: %+v, %v", spec, c, err)
		}
	}
	for _, text := range []string{`{"metadata":{"name":"b"},"spec":{"ipv4":"10.0.0.0/16"}}`, `{"metadata":{"name":"b"}}`} {
		if err := ClusterCIDRFormat.Decode([]byte(text), &c); err != nil || c.Unreadable != "" || c.Spec.PerNodeHostBits != 0 || c.Metadata.UID != "" {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
}
