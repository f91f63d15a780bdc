package aws

import (
	"fmt"
	"time"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/cloud"
)

// doubting is how long AWS may omit an object whose creation had no answer.
const doubting = 20 * time.Second

// twinned are the calls that create a second object when they are repeated: they have no
// client token, and no name or block of addresses that only one object can have.
var twinned = map[string]bool{createVPC: true, createGateway: true, allocateAddress: true, associateVPCBlock: true}

// doubt is a creation without an answer. AWS may have made the object.
type doubt struct {
	cluster, uid string
	key          awsnet.Key
}

func doubtOf(o awsnet.Owner, k awsnet.Key) doubt { return doubt{o.Cluster, o.UID, k} }

// ended records how a creation ended. If it had no answer, readings without the object
// fail for as long as doubting, because a plan would create the object twice.
func (b *networkBook) ended(o awsnet.Owner, call awsnet.Call, x NetworkChange, err error) {
	if !twinned[call.Action] {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for d, at := range b.doubts {
		if time.Since(at) > doubting {
			delete(b.doubts, d)
		}
	}
	if err == nil || cloud.KindOf(err) != cloud.Unavailable {
		delete(b.doubts, doubtOf(o, x.Step.Key))
		return
	}
	if b.doubts == nil {
		b.doubts = make(map[doubt]time.Time)
	}
	b.doubts[doubtOf(o, x.Step.Key)] = time.Now()
}

// doubtful returns an error if a reading lacks an object that a creation without an
// answer may have created.
func (b *networkBook) doubtful(o awsnet.Owner, a awsnet.Account) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for d, at := range b.doubts {
		age := time.Since(at)
		switch {
		case d != doubtOf(o, d.key):
		case age > doubting || shown(o, d.key, a):
			delete(b.doubts, d)
		default:
			return &cloud.Error{Kind: cloud.Pending, Action: "Describe", Text: fmt.Sprintf("AWS may have created %s %s ago, but its answer was lost; reading again", d.key, age.Round(time.Second))}
		}
	}
	return nil
}

// shown reports whether an account has an object of an owner.
func shown(o awsnet.Owner, k awsnet.Key, a awsnet.Account) bool {
	for _, f := range a.Found {
		if k.Kind.Tagged() && o.Owns(f.Tags) && f.Tags[awsnet.PartTag] == k.String() {
			return true
		}
		if b, is := f.Object.(awsnet.Block); is && b.Key() == k {
			return true
		}
	}
	return false
}
