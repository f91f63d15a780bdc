package awsnet

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// Ready returns the steps of a Plan that can run now, given those that succeeded and
// those that began. A step never becomes ready if one that it needs failed.
func Ready(p Plan, done, begun map[StepID]bool) (ready []Step) {
	for _, s := range p.Steps {
		if done[s.StepID] || begun[s.StepID] || slices.ContainsFunc(s.Needs, func(n StepID) bool { return !done[n] }) {
			continue
		}
		ready = append(ready, s)
	}
	return ready
}

// Batches groups steps that one call can carry out: rules that are added to, or removed
// from, one security group in one direction. Every other step is alone.
func Batches(ready []Step) (all [][]Step) {
	type batch struct {
		verb   Verb
		owner  Ref
		egress bool
	}
	at := make(map[batch]int)
	for _, s := range ready {
		o := s.Want
		if s.Verb == Delete {
			o = s.Have
		}
		r, is := o.(Rule)
		if !is || s.Verb == Wait {
			all = append(all, []Step{s})
			continue
		}
		b := batch{s.Verb, r.Owner, r.Egress}
		i, there := at[b]
		if !there || len(all[i]) >= mostInBatch || s.Verb == Change && len(s.Calls) != 1 {
			at[b] = len(all)
			all = append(all, []Step{s})
			continue
		}
		all[i] = append(all[i], s)
	}
	return all
}

// mostInBatch is the maximum number of rules in a call. AWS allows 1,000.
const mostInBatch = 100

// Token returns the ClientToken of an object's creation. If the same call is repeated
// after its answer was lost, it creates nothing more. AWS remembers a token longer than
// the object exists: if a call returns an object that is deleted, repeat it with that
// object's ID among dead.
func Token(o Owner, k Key, dead ...string) string {
	h := sha256.New()
	for _, word := range append([]string{o.Cluster, o.UID, k.String()}, dead...) {
		h.Write([]byte(word))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Calls returns how many calls the Plan makes if nothing fails. Waits are not counted.
func (p Plan) Calls() (n int) {
	byOwner := make(map[string]bool)
	for _, s := range p.Steps {
		switch s.Key.Kind {
		case KindRule:
			o := s.Want
			if s.Verb == Delete {
				o = s.Have
			}
			r := o.(Rule)
			r = Rule{Owner: r.Owner, Egress: r.Egress}
			if key := string(s.Verb) + r.Key().String(); !byOwner[key] {
				byOwner[key] = true
				n += len(s.Calls)
			}
		default:
			n += len(s.Calls)
		}
	}
	return n
}
