package main

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// launchRoutes runs a process of the program for routes alone.
func (s *site) launchRoutes(more ...string) *kerneltest.Process {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	env := append([]string{asProgram + "=1", "GORACE=atexit_sleep_ms=0"}, s.aws.Env()...)
	p := kerneltest.Launch(s.t, "", env, append([]string{self}, s.flags(s.routing(more...)...)...)...)
	s.t.Cleanup(func() { p.End(syscall.SIGKILL) })
	return p
}

// TestAWSAcceptsACallAndNeverAnswers: the program gives up the call, retries, and routes every Node
// once. A write may have been carried out. This takes 12 s, the limit of a read.
func TestAWSAcceptsACallAndNeverAnswers(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]awstest.Fault{
		"the tables":           {Action: "DescribeRouteTables", Times: 1},
		"the instances":        {Action: "DescribeInstances", Times: 1},
		"the check of sources": {Action: "ModifyNetworkInterfaceAttribute", Times: 1},
		"a route":              {Action: "CreateRoute", Times: 1},
		"a route that is made": {Action: "CreateRoute", Times: 1, Done: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSiteOfProcesses(t, 5, 2)
			s.aws.SetRoute(s.tables[0], "10.64.200.0/24", s.aws.Default().Main) // of another program
			want := make(map[string]int)
			for _, id := range s.tables {
				want[id] = len(s.aws.Routes(id)) + 5
			}
			fault.Hang = true
			end := s.aws.Inject(fault)
			s.launchRoutes("--leader-elect=false")
			s.await(upTo(5)...)
			if n := end(); n != 1 {
				t.Errorf("%d calls got no answer", n)
			}
			for _, id := range s.tables {
				if got := s.aws.Routes(id); len(got) != want[id] {
					t.Errorf("%s has %d routes, want %d: %+v", id, len(got), want[id], got)
				}
			}
			if n := s.aws.Count("DeleteRoute") + s.aws.Count("ReplaceRoute"); n > 0 {
				t.Errorf("%d routes were removed or replaced", n)
			}
		})
	}
}

// TestARouteWithoutAnAnswerDelaysNoOther: while each try to create one Node's route hangs, the
// others get theirs. The program ends in time, and the next one creates the missing route.
func TestARouteWithoutAnAnswerDelaysNoOther(t *testing.T) {
	t.Parallel()
	s := newSiteOfProcesses(t, 5, 1)
	end := s.aws.Inject(awstest.Fault{Action: "CreateRoute", Hang: true, When: func(c awstest.Call) bool { return c.Value("DestinationCidrBlock") == s.cidr(2) }})
	p := s.launchRoutes(short...)
	s.await(0, 1, 3, 4)
	kerneltest.Eventually(t, patience, func() error {
		if n := s.aws.Count("CreateRoute"); n < 5 {
			return fmt.Errorf("%d routes were tried", n)
		}
		return nil
	})
	if s.routed(2) == nil {
		t.Error("the hanging route was made")
	}
	began := time.Now()
	if state := p.End(syscall.SIGTERM); !state.Success() || time.Since(began) > patience/4 {
		t.Errorf("%v after %s: %s", state, time.Since(began), p.Said())
	}
	if end() == 0 {
		t.Error("no call hung")
	}
	s.launchRoutes(short...)
	s.await(upTo(5)...)
}
