package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/status"
)

// TestExitCodes runs commands that end with each code.
func TestExitCodes(t *testing.T) {
	well := &fakeDaemon{report: status.Report{Ready: true}, explain: status.Explanation{Code: status.InPlace}}
	ill := &fakeDaemon{explain: status.Explanation{Code: status.Incomplete}}
	lost := &fakeDaemon{explain: status.Explanation{Code: status.InPlace, Probes: &status.PeerProbes{Problem: "its host does not answer"}}}
	atWell, atIll, atLost := " --status-socket="+well.serve(t), " --status-socket="+ill.serve(t), " --status-socket="+lost.serve(t)
	for _, c := range []struct {
		args string
		code int
		says string // on standard error; "" means that it is empty
	}{
		{"status" + atWell, exitFine, ""},
		{"status" + atIll, exitFailing, ""},
		{"status --status-socket=/nowhere", exitNoDaemon, "no daemon answers at /nowhere"},
		{"peers" + atIll, exitFine, ""},
		{"peers --status-socket=/nowhere", exitNoDaemon, "no daemon answers"},
		{"explain 10.5.1.2" + atWell, exitFine, ""},
		{"explain 10.5.1.2" + atIll, exitFailing, ""},
		{"explain 10.5.1.2" + atLost, exitFailing, ""},
		{"explain 10.5.1.2 --status-socket=/nowhere", exitNoDaemon, "no daemon answers"},
		{"explain", exitUsage, "explain needs an IP address"},
		{"explain x", exitUsage, "not an IP address"},
		{"statsu", exitUsage, "status"},
		{"status --outptu=json", exitUsage, "did you mean --output?"},
		{"--etcd-embedded --network=10.5.0.0/16 --backend=foo", exitUsage, "use one of host-gw, vxlan"},
		{"status --output=xml", exitUsage, "unknown output format"},
		{"check-config /nowhere", exitFailing, "no such file"},
		{"leases --etcd-cafile=/nowhere", exitFailing, "/nowhere"},
		{"version", exitFine, ""},
	} {
		var said bytes.Buffer
		code := exit(testProgram().run(strings.Fields(c.args), nil, strings.NewReader(""), new(bytes.Buffer)), &said)
		if code != c.code || !strings.Contains(said.String(), c.says) || (c.says == "") != (said.Len() == 0) {
			t.Errorf("%s: exits with %d and says %q; want %d and %q", c.args, code, said.String(), c.code, c.says)
		}
	}
}
