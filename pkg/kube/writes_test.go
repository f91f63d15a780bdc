package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// TestMergeReadsWhateverTheServerCanSend: a server without metadata-only answers sends
// the object whole, and one without protobuf sends JSON.
func TestMergeReadsWhateverTheServerCanSend(t *testing.T) {
	const whole = protobufType + "," + jsonType
	for name, accept := range map[string]string{"metadata-only": acceptVersion, "whole": whole, "JSON": jsonType} {
		t.Run(name, func(t *testing.T) {
			f := apitest.New(t)
			c := newClient(t, Options{Server: f.URL})
			put(f, "a", "1")
			answers := make(chan string, 1)
			c.Wrap(func(to http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					if got := r.Header.Get("Accept"); got != acceptVersion {
						return nil, fmt.Errorf("accepts %q", got)
					}
					r.Header.Set("Accept", accept)
					answer, err := to.RoundTrip(r)
					if err != nil {
						return nil, err
					}
					text, err := io.ReadAll(answer.Body)
					answer.Body = io.NopCloser(bytes.NewReader(text))
					answers <- fmt.Sprint(answer.Header.Get("Content-Type"), " ", bytes.Contains(text, []byte(metadataKind)))
					return answer, err
				})
			})
			v, err := c.Merge(t.Context(), Path(Nodes, "a"), Merge{Metadata: map[string]any{"annotations": map[string]any{note: "2"}}})
			n := f.Node("a")
			if err != nil || v != (Version{string(n.UID), n.ResourceVersion}) || n.Annotations[note] != "2" {
				t.Errorf("%v, %v, %v", v, err, n.ObjectMeta)
			}
			if got := <-answers; got != map[string]string{"metadata-only": protobufType + " true", "whole": protobufType + " false", "JSON": jsonType + " false"}[name] {
				t.Errorf("answered with %s", got)
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestOutcomes: a write counts as refused or unsent only if it cannot be applied.
func TestOutcomes(t *testing.T) {
	f := apitest.New(t)
	put(f, "a", "0")
	write := func(ctx context.Context, c *Client, text string) error {
		_, err := c.Merge(ctx, Path(Nodes, "a"), Merge{Metadata: map[string]any{"annotations": map[string]any{note: text}}})
		return err
	}
	refusing := func(code int32) {
		f.Do(func() { f.Refuse = func(*http.Request) *metav1.Status { return apitest.Refusal(code, "no") } })
	}
	is := func(what string, err error, want Outcome, applied bool) {
		t.Helper()
		if got := OutcomeOf(err); got != want {
			t.Errorf("%s: %v, want %v: %v", what, got, want, err)
		}
		if got := f.Node("a").Annotations[note] == what; got != applied {
			t.Errorf("%s: applied %t, want %t", what, got, applied)
		}
	}
	c := newClient(t, Options{Server: f.URL})
	is("plain", write(t.Context(), c, "plain"), Applied, true)
	for code, want := range map[int32]Outcome{
		400: Refused, 401: Refused, 403: Refused, 404: Refused, 409: Refused, 410: Refused, 422: Refused, 429: Refused,
		408: Ambiguous, 500: Ambiguous, 502: Ambiguous, 503: Ambiguous, 504: Ambiguous,
	} {
		refusing(code)
		what := fmt.Sprint(code)
		is(what, write(t.Context(), c, what), want, false)
	}
	f.Do(func() { f.Refuse = nil })

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	is("ended before", write(ended, c, "ended before"), Unsent, false)
	is("nothing listens", write(t.Context(), newClient(t, Options{Server: "http://127.0.0.1:1"}), "nothing listens"), Unsent, false)

	f.Do(func() { f.Lose = func(*http.Request) bool { return true } })
	is("lost", write(t.Context(), c, "lost"), Ambiguous, true)
	f.Do(func() { f.Lose = nil })

	f.Do(func() {
		f.Answer = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", protobufType)
			fmt.Fprint(w, "rubbish")
			return true
		}
	})
	is("rubbish", write(t.Context(), c, "rubbish"), Ambiguous, false)
	f.Do(func() { f.Answer = nil })

	// The client gives up while the server holds the request, which is applied later.
	release, arrived := make(chan struct{}), make(chan struct{})
	f.Do(func() {
		f.Hold = func(r *http.Request) <-chan struct{} {
			if r.Method != http.MethodPatch {
				return nil
			}
			close(arrived)
			return release
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	is("held", write(ctx, c, "held"), Ambiguous, false)
	close(release)
	kerneltest.Eventually(t, soon, func() error {
		if got := f.Node("a").Annotations[note]; got != "held" {
			return fmt.Errorf("the note is %s", got)
		}
		return nil
	})
}

func TestMoved(t *testing.T) {
	for err, want := range map[error]bool{
		&Error{Code: 404}: true, &Error{Code: 409}: true, &Error{Code: 422, Message: "metadata.uid: Invalid value"}: true,
		&Error{Code: 422, Message: "spec.podCIDRs: Forbidden"}: false, &Error{Code: 500}: false, errors.New("reset"): false,
	} {
		if Moved(err) != want || Moved(fmt.Errorf("a write: %w", err)) != want {
			t.Errorf("%v: %t", err, !want)
		}
	}
}

// TestMergeChangesOnlyWhatItNames: the JSON of a patch has neither empty parts nor
// empty preconditions, and leaves its caller's map alone.
func TestMergeChangesOnlyWhatItNames(t *testing.T) {
	labels := map[string]any{"labels": map[string]any{"a": nil}}
	for want, m := range map[string]Merge{
		`{}`: {},
		`{"metadata":{"labels":{"a":null},"resourceVersion":"7","uid":"x"}}`: {If: Version{"x", "7"}, Metadata: labels},
		`{"metadata":{"uid":"x"},"spec":{"podCIDR":"10.5.1.0/24"}}`:          {If: Version{UID: "x"}, Spec: map[string]any{"podCIDR": "10.5.1.0/24"}},
		`{"status":{"a":1}}`: {Status: map[string]any{"a": 1}},
	} {
		if got, err := m.patch(); string(got) != want || err != nil {
			t.Errorf("%s, want %s: %v", got, want, err)
		}
	}
	if len(labels) != 1 {
		t.Errorf("%v", labels)
	}
}

// TestAbsentResourceIsReported: a watch of a resource that the server does not have
// reports 404, and lists it when the server has it.
func TestAbsentResourceIsReported(t *testing.T) {
	f := apitest.New(t)
	s := &seen[ClusterCIDR]{read: func(c *ClusterCIDR) (name, note string) { return c.Metadata.Name, c.Spec.IPv4 }}
	run(t, &Watch[ClusterCIDR]{Client: newClient(t, Options{Server: f.URL}), Path: ClusterCIDRs, Format: ClusterCIDRFormat, Sink: s, Report: s.report})
	s.await(t, "failing with 404", func() bool { return Code(s.failing) == http.StatusNotFound })
	f.Do(func() { f.Serves[ClusterCIDRs] = "ClusterCIDR" })
	c := newClient(t, Options{Server: f.URL})
	made := ClusterCIDR{Metadata: Meta{Name: "a"}, Spec: ClusterCIDRSpec{IPv4: "10.5.0.0/16", PerNodeHostBits: 8}}
	if err := Create(t.Context(), c, ClusterCIDRs, ClusterCIDRFormat, &made); err != nil || made.Metadata.UID == "" {
		t.Errorf("%+v, %v", made, err)
	}
	s.await(t, "listed", func() bool { return s.failing == nil && maps.Equal(s.objects, map[string]string{"a": "10.5.0.0/16"}) })
}

// TestLeaseUpdateKeepsForeignFields: an Update sends back what the Lease was read
// with, except for the fields of its spec.
func TestLeaseUpdateKeepsForeignFields(t *testing.T) {
	const text = `{"kind":"Lease","metadata":{"name":"a","uid":"u","resourceVersion":"7","labels":{"a":"b"},"ownerReferences":[{"uid":"o"}]},
		"spec":{"holderIdentity":"x","leaseDurationSeconds":15,"renewTime":"2026-01-02T03:04:05.000006Z","preferredHolder":"y"}}`
	var l Lease
	if err := LeaseFormat.Decode([]byte(text), &l); err != nil {
		t.Fatal(err)
	}
	l.Spec.HolderIdentity, l.Spec.LeaseTransitions, l.Spec.RenewTime = "", 3, "2026-01-02T03:04:06.000006Z"
	got, err := json.Marshal(&l)
	const want = `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"labels":{"a":"b"},"name":"a","ownerReferences":[{"uid":"o"}],"resourceVersion":"7","uid":"u"},` +
		`"spec":{"holderIdentity":"","leaseDurationSeconds":15,"leaseTransitions":3,"preferredHolder":"y","renewTime":"2026-01-02T03:04:06.000006Z"}}`
	if string(got) != want || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	for _, bad := range []string{`{"spec":7}`, `{"spec":{"leaseDurationSeconds":1e99}}`, `{"spec":{"holderIdentity":{}}}`, `[]`, strings.Repeat("[", 1<<20)} {
		if err := LeaseFormat.Decode([]byte(bad), &l); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%.50s: %v", bad, err)
		}
	}
}
