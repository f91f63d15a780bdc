package awscluster

import (
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/cloud"
)

// failOnce makes one call of each action fail.
func (a *account) failOnce(actions ...string) {
	left := make(map[string]bool)
	for _, action := range actions {
		left[action] = true
	}
	a.fail = func(call string) error {
		if !left[call] {
			return nil
		}
		delete(left, call)
		return errDown
	}
}

// TestOldFailuresDelayNoBuild: however long the account could not be read, or nothing of the
// network could be built, a single failure after that costs seconds.
func TestOldFailuresDelayNoBuild(t *testing.T) {
	for _, cause := range []string{"Zones", "CreateVpc", "quota"} {
		t.Run(cause, func(t *testing.T) {
			inLab(t, func(l *lab) {
				a := l.accounts[home]
				a.fail = func(call string) error {
					if call == cause {
						return &cloud.Error{Kind: cloud.Denied, Action: call, Text: "denied"}
					}
					return nil
				}
				if cause == "quota" {
					a.usage = map[string]awsnet.Usage{"L-0263D0A3": {Limit: 5, Used: 4}}
				}
				l.cluster("prod", `{}`)
				l.awsCluster("prod", small)
				l.Begin()
				l.Pass(time.Hour)
				a.Do(func() {
					a.usage = nil
					a.failOnce("CreateNatGateway")
				})
				for begun, i := false, 0; !begun; i++ {
					if i == 600 {
						t.Fatal("nothing is built after ten minutes")
					}
					l.Pass(time.Second)
					a.Do(func() { begun = len(a.model.IDs(awsnet.KindVPC)) > 0 })
				}
				l.Pass(time.Minute)
				l.sound("prod")
			})
		})
	}
}

// TestABlockedDeletionGoesOnSoon: however long something has held a network, a failed reading
// and a failed call after that cost seconds.
func TestABlockedDeletionGoesOnSoon(t *testing.T) {
	inLab(t, func(l *lab) {
		l.build()
		a, owner := l.accounts[home], l.owner("prod")
		a.Do(func() {
			a.model.Holders = []awsnet.Holder{{ID: "eni-1", VPC: a.model.IDs(awsnet.KindVPC)[0], Subnet: a.model.IDs(awsnet.KindSubnet)[0]}}
		})
		l.delete("prod")
		l.Pass(time.Hour)
		if _, exists := l.get("prod"); !exists {
			t.Fatal("nothing holds the network")
		}
		a.Do(func() {
			a.model.Holders = nil
			a.failOnce("Network", "DeleteVpc")
		})
		l.Pass(2 * time.Minute)
		if _, exists := l.get("prod"); exists || len(a.left(owner)) > 0 {
			t.Errorf("left over: %v, %s", a.left(owner), l.condition("prod", "Ready"))
		}
	})
}
