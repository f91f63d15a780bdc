package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/controller/awscluster"
	core "github.com/tulle-net/tulle/pkg/controller/cluster"
)

// TestControllersOfClustersRunOnlyWhereTheyAreNamed: * does not include them, and their flags
// have no effect without them.
func TestControllersOfClustersRunOnlyWhereTheyAreNamed(t *testing.T) {
	ipam := "--allocate-node-cidrs --cluster-cidr=10.4.0.0/16 "
	for args, want := range map[string]struct {
		runs []string
		text string
	}{
		ipam:                                                              {runs: []string{nodeIPAMPart.name}},
		ipam + "--controllers=*,awscluster":                               {runs: []string{nodeIPAMPart.name, awscluster.Name}},
		"--controllers=awscluster":                                        {runs: []string{awscluster.Name}},
		"--controllers=awscluster,cluster":                                {runs: []string{awscluster.Name, core.Name}},
		"--controllers=cluster-controller":                                {runs: []string{core.Name}},
		"--controllers=awscluster-controller":                             {runs: []string{awscluster.Name}},
		ipam + "--network-api-share=10":                                   {text: "has no effect without awscluster-controller"},
		"--controllers=cluster " + period("1m"):                           {text: "has no effect without awscluster-controller"},
		"--controllers=awscluster " + period("1m"):                        {runs: []string{awscluster.Name}},
		"--controllers=awscluster " + period("1s"):                        {text: "not a duration from 5s to 24h"},
		"--controllers=awscluster --etcd-endpoints=http://127.0.0.1:2379": {text: "awscluster-controller needs Kubernetes"},
	} {
		var s settings
		given, err := s.program().Read(strings.Fields(args), nil)
		if err == nil {
			err = given.Apply()
		}
		if err == nil {
			err = s.check(given)
		}
		if want.text != "" {
			if err == nil || !strings.Contains(err.Error(), want.text) {
				t.Errorf("%s: %v", args, err)
			}
			continue
		}
		var runs []string
		for _, p := range parts() {
			if s.runs(p) {
				runs = append(runs, p.name)
			}
		}
		if err != nil || !slices.Equal(runs, want.runs) {
			t.Errorf("%s: %v, runs %q", args, err, runs)
		}
	}
}

func period(value string) string { return "--network-reconciliation-period=" + value }
