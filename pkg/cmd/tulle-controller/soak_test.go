package main

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/controller/lifecycle"
)

var (
	soakFor  = flag.Duration("soak", 0, "how long TestSoakCloud injects faults")
	soakSeed = flag.Uint64("soak-seed", 0, "what TestSoakCloud's faults are drawn from; 0 is another each time")
)

// hurried is the variable that divides the times of the lifecycle controller, so that a
// soak of an hour sees twenty of its hours.
const hurried = "TEST_HURRIES_TULLE_CONTROLLER"

// soakPace is by what.
const soakPace = 20

// hurry shortens the times of this process, if it is to.
func hurry() {
	by, err := strconv.Atoi(os.Getenv(hurried))
	if err != nil {
		return
	}
	lifeRules.Times, lifeRules.Remembers = lifecycle.Usual.Over(by), lifeRules.Remembers/time.Duration(by)
	lateBalancing = time.Minute / 2 / time.Duration(by)
}

// TestSoakCloud runs two replicas with all controllers of a cloud, while the cloud, the
// API server, machines, people and the replicas themselves fail at random. No Node is
// deleted wrongly meanwhile. At rest, tables, Nodes and plan agree. Without -soak nothing
// fails, and it is at rest at once.
func TestSoakCloud(t *testing.T) {
	seed := *soakSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-soak %s -soak-seed %d", *soakFor, seed)
	w := newSoak(t, seed)
	defer w.explainFailure()
	w.await(false)
	t.Logf("at rest 0: %s", w.score())
	rounds := 0
	for end := time.Now().Add(*soakFor); time.Now().Before(end) && !t.Failed(); rounds++ {
		w.storm(min(time.Until(end), 5*time.Minute))
		w.calm()
		w.await(false)
		t.Logf("at rest %d: %s", rounds+1, w.score())
	}
	w.await(true)
	w.stop()
	if *soakFor >= 20*time.Minute && w.deleted == 0 {
		t.Error("no Node was deleted by the program")
	}
}

// explainFailure logs what the replicas wrote, and what a plan would write now.
func (w *soakWorld) explainFailure() {
	if !w.t.Failed() {
		return
	}
	for i, r := range w.replicas {
		w.t.Logf("replica %d wrote: %s", i, r.Said())
	}
	for _, command := range []string{"plan", "routes"} {
		var out strings.Builder
		err := run(append([]string{command}, w.flags(w.args...)...), nil, &out)
		w.t.Logf("%s: %v\n%s", command, err, out.String())
	}
}
