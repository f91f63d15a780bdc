package daemon

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/runner"
	"github.com/tulle-net/tulle/pkg/status"
)

// TestCommandsGetNoSettings passes on what a command needs, and no secret of the daemon.
func TestCommandsGetNoSettings(t *testing.T) {
	got := CommandEnv([]string{"PATH=/bin", "TULLED_ETCD_PASSWORD=secret", "FLANNELD_ETCD_PASSWORD=secret", "NOTIFY_SOCKET=/run/x", "WATCHDOG_USEC=1", "LISTEN_FDS=1", "HOME=/root", "NOTIFY_SOCKETS=mine"})
	if want := []string{"PATH=/bin", "HOME=/root", "NOTIFY_SOCKETS=mine"}; !slices.Equal(got, want) {
		t.Errorf("commands get %q, want %q", got, want)
	}
}

func TestCommandsMustBeAllowed(t *testing.T) {
	for name, test := range map[string]struct {
		o    options.Options
		want string
	}{
		"not allowed": {options.Options{StateDir: "/s"}, "--allow-extension"},
		"no folder":   {options.Options{AllowExtension: true}, "--state-dir"},
		"allowed":     {options.Options{AllowExtension: true, StateDir: "/s"}, ""},
	} {
		err := refused(test.o)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReportOfCommands(t *testing.T) {
	if c := commandsOf(runner.Status{}); c != nil {
		t.Errorf("without a command: %+v", c)
	}
	since := time.Unix(7, 0)
	c := commandsOf(runner.Status{
		Running: "SubnetAddCommand 10.5.2.0/24", Since: since, Waiting: 3, Failing: 1,
		Counts: map[string]runner.Count{"SubnetAddCommand": {Runs: 5, Failed: 2, Killed: 1, Took: 1500 * time.Millisecond}, "PreStartupCommand": {Runs: 1}},
	})
	want := []status.CommandCount{{Command: "PreStartupCommand", Runs: 1}, {Command: "SubnetAddCommand", Runs: 5, Failed: 2, Killed: 1, Seconds: 1.5}}
	if c == nil || !slices.Equal(c.Runs, want) || c.Waiting != 3 || c.Failing != 1 || !c.Since.Equal(since) {
		t.Errorf("got %+v", c)
	}
}
