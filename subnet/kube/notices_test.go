package kube

import (
	"maps"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
	"github.com/tulle-net/tulle/subnet"
)

// noticeBook returns a book, and a function that enters a Node with a notice.
func noticeBook(t *testing.T) (b *book, set func(name string, notice ...string)) {
	t.Helper()
	b = testBook(t, "")
	b.listed, b.complete = [scopes]bool{true, true}, true
	revision := 0
	set = func(name string, notice ...string) {
		t.Helper()
		revision++
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: strconv.Itoa(revision), Annotations: make(map[string]string)}}
		n.Spec.PodCIDR = "10.5." + name + ".0/24"
		for key, value := range map[string]string{"kube-subnet-manager": "true", "backend-type": "cloud", "backend-data": "null", "public-ip": "198.18.0." + name} {
			n.Annotations[prefix+"/"+key] = value
		}
		for _, text := range notice {
			n.Annotations[subnet.NoticeAnnotation] = text
		}
		var v kube.Node
		if err := kube.WholeNode.Decode(apitest.Encoded(t, n), &v); err != nil {
			t.Fatal(err)
		}
		b.take(others, &v)
	}
	return b, set
}

// Notices come with the Nodes. A reader learns of changes alone, and other changes of a
// Node tell it nothing.
func TestNoticesComeWithTheNodes(t *testing.T) {
	b, set := noticeBook(t)
	r, told := &reader{all: true, touched: make(map[string]struct{})}, make(map[string]subnet.Notice)
	defer b.join(r)()
	set("1", "vpc-1 198.18.0.1 10.5.1.0/24")
	set("2")
	want := func(complete bool, notices map[string]string, gone ...string) {
		t.Helper()
		u, ok, _ := b.nextNotices(r, told)
		got := make(map[string]string)
		for key, n := range u.Set {
			got[key] = n.String()
		}
		if ok != (complete || len(notices)+len(gone) > 0) || u.Complete != complete || !maps.Equal(got, notices) || len(u.Gone) != len(gone) {
			t.Errorf("%+v, %t", u, ok)
		}
	}
	want(true, map[string]string{"10.5.1.0-24": "vpc-1 198.18.0.1 10.5.1.0/24"})
	set("2", "vpc-1 198.18.0.1")
	want(false, map[string]string{"10.5.2.0-24": "vpc-1 198.18.0.1"})
	set("2", "vpc-1 198.18.0.1")
	want(false, nil)
	set("1", "vpc-1 198.18.0.1 10.5.1.9/24") // cannot be read
	want(false, nil, "10.5.1.0-24")
	set("1", "vpc-1 198.18.0.1 10.5.1.0/24")
	want(false, map[string]string{"10.5.1.0-24": "vpc-1 198.18.0.1 10.5.1.0/24"})
	b.remove(others, &kube.Node{Name: []byte("1"), UID: []byte("uid-1"), Revision: 99})
	want(false, nil, "10.5.1.0-24")
	set("3")
	if e := b.nodes["3"]; e == nil || e.notice != nil {
		t.Errorf("%+v", e)
	}
	if e := b.nodes["2"]; e == nil || e.lease.Routed != (subnet.Pair[bool]{}) || e.bad != nil {
		t.Errorf("%+v", e)
	}
}
