package awsnet_test

import (
	"math/rand/v2"
	"testing"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// FuzzPlansOfOddAccounts plans for accounts that a reading should never return: objects
// occur twice, have odd states, have parts of each other, and lack tags. The plan must
// be a graph without cycles, and delete only objects with our tags.
func FuzzPlansOfOddAccounts(f *testing.F) {
	w := newWorld(f, 0)
	want := w.want(specs["small"])
	w.apply(want)
	base := w.account.Read()
	for seed := range uint64(40) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		a := awsnet.Account{}
		for _, found := range base.Found {
			if rnd.IntN(12) == 0 {
				continue
			}
			a.Found = append(a.Found, found)
			if rnd.IntN(10) == 0 {
				found.ID += "-2"
				a.Found = append(a.Found, found)
			}
		}
		for i := range a.Found {
			x, y := &a.Found[i], a.Found[rnd.IntN(len(a.Found))]
			switch rnd.IntN(14) {
			case 0:
				x.State = []awsnet.State{awsnet.Pending, awsnet.Failed, awsnet.Deleting}[rnd.IntN(3)]
			case 1:
				x.Tags = y.Tags
			case 2:
				x.Tags = nil
			case 3:
				x.ID = y.ID
			case 4:
				x.Object = y.Object
			case 5:
				x.Fixed = true
			}
			if rnd.IntN(30) == 0 {
				a.Holders = append(a.Holders, awsnet.Holder{ID: "eni-1", VPC: y.ID, Subnet: x.ID, Groups: []string{x.ID, y.ID}, Description: "ELB " + y.ID, Public: true})
			}
		}
		for _, p := range []awsnet.Plan{awsnet.Diff(w.owner, want, a), awsnet.Destroy(w.owner, a, seed%2 == 0)} {
			seen := make(map[awsnet.StepID]bool)
			for _, s := range p.Steps {
				for _, n := range s.Needs {
					if !seen[n] {
						t.Errorf("%s needs %v, which is not before it", s.Summary, n)
					}
				}
				seen[s.StepID] = true
				if s.Verb == awsnet.Delete && s.Key.Kind.Tagged() && owners(a, w.owner, s.ID) == 0 {
					t.Errorf("%s: it is not ours", s.Summary)
				}
			}
		}
	})
}

// owners counts the objects of ours with an ID: an odd account has several.
func owners(a awsnet.Account, o awsnet.Owner, id string) (n int) {
	for _, f := range a.Found {
		if f.ID == id && o.Owns(f.Tags) {
			n++
		}
	}
	return n
}
