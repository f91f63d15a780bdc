package kube

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

func TestParseClaimTakesOnePerFamily(t *testing.T) {
	for text, want := range map[string]string{
		"10.5.1.0/24":                     "10.5.1.0/24",
		"fd00:5:0:1::/64,10.5.1.0/24":     "10.5.1.0/24,fd00:5:0:1::/64",
		"10.5.1.0/24,10.5.2.0/24":         "",
		"10.5.1.0/24,":                    "",
		"10.5.1.0/24 ":                    "",
		"10.5.1.1/24":                     "",
		"":                                "",
		fmt.Sprintf("10.5.1.0/%0200d", 1): "",
	} {
		if got := formatClaim(parseClaim([]byte(text))); got != want {
			t.Errorf("%q is read as %q, want %q", text, got, want)
		}
	}
}

// FuzzClaim checks that a claim is valid, and is read as it was written.
func FuzzClaim(f *testing.F) {
	f.Add("10.5.1.0/24,fd00:5:0:1::/64")
	f.Add("fd00::/8")
	f.Add(",")
	f.Fuzz(func(t *testing.T, text string) {
		claim := parseClaim([]byte(text))
		for f, p := range claim {
			if p.IsValid() && (p != p.Masked() || p.Addr().Is4() != (f == 0)) {
				t.Errorf("%q claims %s", text, p)
			}
		}
		if claim != (podCIDRs{}) && parseClaim([]byte(formatClaim(claim))) != claim {
			t.Errorf("%v is written as %s", claim, formatClaim(claim))
		}
	})
}

// claimant returns a Node with one podCIDR and a claim.
func claimant(name, uid, cidr, claim string, created int64) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(uid), ResourceVersion: "7", CreationTimestamp: metav1.Unix(created, 0),
		Annotations: map[string]string{prefix + "/kube-subnet-manager": "true", prefix + "/public-ip": "192.0.2.1", prefix + "/tulle-subnets": claim},
	}}
	if claim == "" {
		delete(n.Annotations, prefix+"/tulle-subnets")
	}
	if cidr != "" {
		n.Spec.PodCIDRs = []string{cidr}
	}
	return n
}

// metadataView returns the metadata of a Node, as a watch delivers it.
func metadataView(t testing.TB, n *corev1.Node) *kube.Node {
	t.Helper()
	return decoded(t, kube.NodeMetadata, &metav1.PartialObjectMetadata{ObjectMeta: n.ObjectMeta})
}

func wholeView(t testing.TB, n *corev1.Node) *kube.Node {
	t.Helper()
	return decoded(t, kube.WholeNode, n)
}

// decoded returns a Node as a watch delivers it.
func decoded(t testing.TB, format kube.Format[kube.Node], object apitest.Marshaler) *kube.Node {
	t.Helper()
	n := new(kube.Node)
	if err := format.Decode(apitest.Encoded(t, object), n); err != nil {
		t.Fatal(err)
	}
	return n
}

// metadataBook returns a book whose own Node has 10.5.0.0/24, and which has the metadata
// of other Nodes.
func metadataBook(t testing.TB, nodes ...*corev1.Node) *book {
	t.Helper()
	b := testBook(t, "own")
	l := b.listing(itself)
	l.add(wholeView(t, claimant("own", "own", "10.5.0.0/24", "10.5.0.0/24", 50)))
	b.replace(l)
	l = b.listing(others)
	for _, n := range nodes {
		l.add(metadataView(t, n))
	}
	b.replace(l)
	return b
}

// leaseholders returns the Node of each key that readers see.
func (b *book) leaseholders() map[string]string {
	all := make(map[string]string)
	for key := range b.keys {
		if e := b.at(key); e.bad == nil {
			all[key] = e.name
		}
	}
	return all
}

// settleAll fetches all suspects.
func (b *book) settleAll(t testing.TB, nodes map[string]*corev1.Node) {
	t.Helper()
	for {
		name, _, _ := b.nextDoubtful()
		if name == "" {
			return
		}
		if !b.verdict(wholeView(t, nodes[name])) {
			t.Fatalf("the verdict of %s is of another", name)
		}
	}
}

// TestFalseClaimTakesNothing: a claim to another Node's subnet is never accepted, and
// takes nothing from its owner. Neither age nor order of arrival matters.
func TestFalseClaimTakesNothing(t *testing.T) {
	honest := func(i int) *corev1.Node {
		cidr := fmt.Sprintf("10.5.%d.0/24", i)
		return claimant(fmt.Sprintf("n%d", i), fmt.Sprintf("u%d", i), cidr, cidr, int64(100+i))
	}
	for name, liar := range map[string]*corev1.Node{
		"the own":                claimant("liar", "x", "10.5.9.0/24", "10.5.0.0/24", 1),
		"a peer's, as the elder": claimant("liar", "x", "10.5.9.0/24", "10.5.1.0/24", 1),
		"a peer's":               claimant("liar", "x", "10.5.9.0/24", "10.5.1.0/24", 999),
		"all there is":           claimant("liar", "x", "10.5.9.0/24", "10.5.0.0/16", 1),
		"a part of a peer's":     claimant("liar", "x", "10.5.9.0/24", "10.5.1.128/25", 1),
		"another family":         claimant("liar", "x", "10.5.9.0/24", "fd00::/64", 1),
		"one family more":        claimant("liar", "x", "10.5.9.0/24", "10.5.9.0/24,fd00::/64", 1),
		"rubbish":                claimant("liar", "x", "10.5.9.0/24", "rubbish", 1),
		"nothing":                claimant("liar", "x", "10.5.9.0/24", "", 1),
	} {
		t.Run(name, func(t *testing.T) {
			nodes := map[string]*corev1.Node{"n1": honest(1), "n2": honest(2), "liar": liar}
			before := map[string]string{"10.5.0.0-24": "own", "10.5.1.0-24": "n1", "10.5.2.0-24": "n2"}
			after := maps.Clone(before)
			after["10.5.9.0-24"] = "liar"

			// The liar arrives when the others are known.
			b := metadataBook(t, honest(1), honest(2))
			if !maps.Equal(b.leaseholders(), before) || !b.complete {
				t.Fatalf("%v, complete %t", b.leaseholders(), b.complete)
			}
			b.take(others, metadataView(t, liar))
			if !maps.Equal(b.leaseholders(), before) {
				t.Errorf("before the verdict: %v", b.leaseholders())
			}
			b.settleAll(t, nodes)
			if !maps.Equal(b.leaseholders(), after) {
				t.Errorf("after the verdict: %v", b.leaseholders())
			}

			// All arrive at once: readers see nothing before all is verified.
			b = metadataBook(t, honest(1), liar, honest(2))
			if b.complete {
				t.Error("complete before the verdict")
			}
			b.settleAll(t, nodes)
			if !maps.Equal(b.leaseholders(), after) || !b.complete {
				t.Errorf("listed: %v, complete %t", b.leaseholders(), b.complete)
			}

			// The liar is known before its victim.
			b = metadataBook(t, liar)
			b.settleAll(t, nodes)
			b.take(others, metadataView(t, honest(1)))
			b.take(others, metadataView(t, honest(2)))
			b.settleAll(t, nodes)
			for key, name := range before {
				if b.leaseholders()[key] != name {
					t.Errorf("after it arrived later: %v", b.leaseholders())
				}
			}

			// A later claim of the liar causes no further request.
			turned := liar.DeepCopy()
			turned.Annotations[prefix+"/tulle-subnets"] = "10.5.2.0/24"
			b = metadataBook(t, liar)
			b.settleAll(t, nodes)
			b.take(others, metadataView(t, honest(1)))
			b.settleAll(t, nodes)
			verified := b.nodes["liar"].verified()
			b.take(others, metadataView(t, turned))
			if name, _, _ := b.nextDoubtful(); verified == (name != "") {
				t.Errorf("verified %t, suspect %q", verified, name)
			}
		})
	}
}

// TestChangedClaimKeepsVerifiedSubnets: an accepted Node that changes its claim keeps
// its subnets until it is fetched.
func TestChangedClaimKeepsVerifiedSubnets(t *testing.T) {
	for _, claim := range []string{"", "rubbish", "10.5.7.0/24", "10.5.0.0/24"} {
		n := claimant("n1", "u1", "10.5.1.0/24", "10.5.1.0/24", 100)
		b := metadataBook(t, n)
		turned := claimant("n1", "u1", "10.5.1.0/24", claim, 100)
		b.take(others, metadataView(t, turned))
		if name, _, _ := b.nextDoubtful(); name != "n1" || b.leaseholders()["10.5.1.0-24"] != "n1" || len(b.leaseholders()) != 2 {
			t.Errorf("%q: suspect %q, %v", claim, name, b.leaseholders())
		}
		b.settleAll(t, map[string]*corev1.Node{"n1": turned})
		if b.leaseholders()["10.5.1.0-24"] != "n1" || len(b.leaseholders()) != 2 {
			t.Errorf("%q: %v", claim, b.leaseholders())
		}
		// Re-created, it is another Node.
		recreated := claimant("n1", "u2", "10.5.8.0/24", "10.5.8.0/24", 200)
		b.take(others, metadataView(t, recreated))
		if b.leaseholders()["10.5.8.0-24"] != "n1" || len(b.leaseholders()) != 2 {
			t.Errorf("%q: re-created: %v", claim, b.leaseholders())
		}
	}
}

// TestVerdictIgnoresReplacedNode: an answer for a Node that was re-created meanwhile counts for
// neither Node.
func TestVerdictIgnoresReplacedNode(t *testing.T) {
	b := metadataBook(t, claimant("n1", "u1", "10.5.1.0/24", "", 100))
	if b.verdict(wholeView(t, claimant("n1", "u2", "10.5.2.0/24", "", 100))) {
		t.Error("taken for it")
	}
	if name, _, _ := b.nextDoubtful(); name != "n1" || len(b.leaseholders()) != 1 {
		t.Errorf("%q, %v", name, b.leaseholders())
	}
}

// TestDeletedStaysDeleted: a late answer to a patch does not bring a deleted Node
// back. A new Node of its name does appear.
func TestDeletedStaysDeleted(t *testing.T) {
	b := metadataBook(t)
	own := func(uid, revision string) *kube.Node {
		n := claimant("own", uid, "10.5.0.0/24", "10.5.0.0/24", 50)
		n.ResourceVersion = revision
		return wholeView(t, n)
	}
	b.remove(itself, own("own", "9"))
	b.take(itself, own("own", "8"))
	if e, _, _ := b.ownNode(); e != nil {
		t.Errorf("there is a Node %s of revision %d, which was deleted", e.name, e.revision)
	}
	b.take(itself, own("other", "10"))
	if e, _, _ := b.ownNode(); e == nil || e.uid != "other" {
		t.Errorf("the new Node is %+v", e)
	}
}

// TestNodeWithoutPodCIDRIsFetchedAgain: such a Node is fetched again at each of its
// changes.
func TestNodeWithoutPodCIDRIsFetchedAgain(t *testing.T) {
	n := claimant("n1", "u1", "", "10.5.1.0/24,10.5.2.0/24", 100)
	b := metadataBook(t, n)
	for range 2 {
		b.settleAll(t, map[string]*corev1.Node{"n1": n})
		if len(b.leaseholders()) != 1 || !b.complete || len(b.doubts) != 0 {
			t.Fatalf("%v, complete %t, doubts %v", b.leaseholders(), b.complete, b.doubts)
		}
		b.take(others, metadataView(t, n))
	}
	// It gets podCIDRs between the request and the answer.
	asked := wholeView(t, n)
	n = n.DeepCopy()
	n.Spec.PodCIDRs, n.ResourceVersion = []string{"10.5.1.0/24"}, "8"
	b.take(others, metadataView(t, n))
	b.verdict(asked)
	b.settleAll(t, map[string]*corev1.Node{"n1": n})
	if b.leaseholders()["10.5.1.0-24"] != "n1" || len(b.doubts) != 0 {
		t.Errorf("%v, doubts %v", b.leaseholders(), b.doubts)
	}
}

// TestReshapeVerifiesOtherShapes: when the length of the own podCIDRs changes, Nodes
// that were accepted because of the old length are fetched.
func TestReshapeVerifiesOtherShapes(t *testing.T) {
	n1, n2 := claimant("n1", "u1", "10.5.1.0/24", "10.5.1.0/24", 100), claimant("n2", "u2", "10.5.2.0/24", "10.5.2.0/24", 101)
	b := metadataBook(t, n1, n2)
	b.take(itself, wholeView(t, claimant("own", "again", "10.5.64.0/20", "", 200)))
	if len(b.doubts) != 2 || len(b.leaseholders()) != 3 {
		t.Errorf("doubts %v, %v", b.doubts, b.leaseholders())
	}
	liar := claimant("n3", "u3", "10.5.80.0/20", "10.5.0.0/20", 1)
	b.take(others, metadataView(t, liar))
	if b.leaseholders()["10.5.0.0-20"] != "" {
		t.Errorf("%v", b.leaseholders())
	}
	b.settleAll(t, map[string]*corev1.Node{"n1": n1, "n2": n2, "n3": liar})
	want := map[string]string{"10.5.64.0-20": "own", "10.5.80.0-20": "n3", "10.5.1.0-24": "n1", "10.5.2.0-24": "n2"}
	if !maps.Equal(b.leaseholders(), want) {
		t.Errorf("%v", b.leaseholders())
	}
}

// TestMetadataGivesSameLeasesAsWholeNodes: random changes and claims. A book of
// metadata shows every honest Node at all times, as a book of whole Nodes does. A
// liar gets no other Node's subnet.
func TestMetadataGivesSameLeasesAsWholeNodes(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		cidr := func() string {
			if r.IntN(8) == 0 {
				return fmt.Sprintf("10.5.%d.0/23", 2*r.IntN(8))
			}
			return fmt.Sprintf("10.5.%d.0/24", r.IntN(16))
		}
		b, nodes := metadataBook(t), make(map[string]*corev1.Node)
		free := func(cidr string) bool {
			p := netip.MustParsePrefix(cidr)
			for _, n := range nodes {
				if p.Overlaps(netip.MustParsePrefix(n.Spec.PodCIDRs[0])) {
					return false
				}
			}
			return !p.Overlaps(netip.MustParsePrefix("10.5.0.0/24"))
		}
		for step := range 60 {
			name := fmt.Sprintf("n%d", r.IntN(6))
			switch n := nodes[name]; r.IntN(5) {
			case 0: // one verdict or several
				for range r.IntN(4) {
					if name, _, _ := b.nextDoubtful(); name != "" {
						b.verdict(wholeView(t, nodes[name]))
					}
				}
			case 1: // a Node is deleted
				if n != nil {
					delete(nodes, name)
					b.remove(others, metadataView(t, n))
				}
			case 2: // a list arrives
				l := b.listing(others)
				for _, n := range nodes {
					l.add(metadataView(t, n))
				}
				b.replace(l)
			case 3: // a Node changes
				if n != nil {
					n = n.DeepCopy()
					n.Annotations[prefix+"/tulle-subnets"] = []string{n.Spec.PodCIDRs[0], n.Spec.PodCIDRs[0], cidr(), "rubbish"}[r.IntN(4)]
					nodes[name] = n
					b.take(others, metadataView(t, n))
				}
			case 4: // a Node is new
				given := cidr()
				if n == nil && free(given) {
					claim := given
					if r.IntN(3) == 0 {
						claim = cidr()
					}
					n = claimant(name, fmt.Sprintf("u%d", step), given, claim, r.Int64N(100))
					nodes[name] = n
					b.take(others, metadataView(t, n))
				}
			}
			if len(b.doubts) > 0 {
				continue
			}
			for _, e := range b.nodes {
				for name, n := range nodes {
					p := netip.MustParsePrefix(n.Spec.PodCIDRs[0])
					if name != e.name && !e.held && n.Annotations[prefix+"/tulle-subnets"] == p.String() && p.Overlaps(e.subnets[0]) {
						t.Fatalf("seed %d: %s has %s, a part of what is %s's", seed, e.name, e.subnets[0], name)
					}
				}
			}
		}
		b.settleAll(t, nodes)
		shown := b.leaseholders()
		for name, n := range nodes {
			e := b.nodes[name]
			honest := n.Annotations[prefix+"/tulle-subnets"] == n.Spec.PodCIDRs[0]
			if (honest || e.verified()) && !slices.Contains(slices.Collect(maps.Values(shown)), name) {
				t.Fatalf("seed %d: %s is missing: %v", seed, name, shown)
			}
			if honest && formatClaim(e.subnets) != n.Spec.PodCIDRs[0] {
				t.Fatalf("seed %d: %s has %v and not %s", seed, name, e.subnets, n.Spec.PodCIDRs[0])
			}
		}
		check(t, b)
	}
}

// check compares the book's counts with its Nodes.
func check(t *testing.T, b *book) {
	t.Helper()
	again := newHolders()
	again.shape = b.holders.shape
	keys := 0
	for _, e := range b.nodes {
		again.add(e, 1)
		if e.managed && !e.held {
			keys++
		}
	}
	for _, e := range b.keys {
		keys -= len(e)
	}
	if !maps.Equal(again.count, b.holders.count) || !maps.Equal(again.otherShape, b.holders.otherShape) || again.open != b.holders.open || keys != 0 {
		t.Errorf("%+v, want %+v; %d keys too few", b.holders, again, keys)
	}
}
