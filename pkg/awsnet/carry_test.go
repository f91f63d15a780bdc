package awsnet_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// short returns what a short reading has of an account.
func short(a awsnet.Account) awsnet.Account {
	a.Found = slices.DeleteFunc(slices.Clone(a.Found), func(f awsnet.Found) bool { return slices.Contains(awsnet.Carried, awsnet.KindOf(f.Object)) })
	return a
}

// TestShortReadingsSeeWhatFullOnesSee deletes by hand each object that AWS lets people
// delete: a short reading leads to the same plan as a full one, or to a full one.
func TestShortReadingsSeeWhatFullOnesSee(t *testing.T) {
	w := newWorld(t, 1)
	want := w.want(specs["three zones"])
	w.apply(want)
	full := w.account.Read()
	a, ok := awsnet.Carry(full, short(full))
	if !ok || len(a.Found) != len(full.Found) || len(awsnet.Diff(w.owner, want, a).Steps) > 0 {
		t.Fatalf("an idle network needs a full reading: %v", ok)
	}
	carried := 0
	for _, f := range full.Found {
		w := newWorld(t, 1)
		w.apply(want)
		if f.Fixed || w.account.Delete(f.ID) != nil {
			continue
		}
		now := w.account.Read()
		a, ok := awsnet.Carry(full, short(now))
		if !ok {
			continue
		}
		carried++
		if x, y := awsnet.Diff(w.owner, want, now), awsnet.Diff(w.owner, want, a); !reflect.DeepEqual(x.Steps, y.Steps) {
			t.Errorf("without %s: a full reading leads to\n%s\nand a short one to\n%s", f.ID, summaries(x), summaries(y))
		}
	}
	if carried < 20 {
		t.Errorf("only %d of %d deletions are seen by a short reading", carried, len(full.Found))
	}
}
