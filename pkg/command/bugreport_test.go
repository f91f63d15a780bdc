package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/archivetest"
)

// TestBugReport reports on a host with a daemon, and without.
func TestBugReport(t *testing.T) {
	t.Setenv("PATH", "") // the test does not need the host's own commands
	d := &fakeDaemon{
		report: status.Report{Ready: true, Flags: []string{"--iface=eth1", "--etcd-password=…"}},
		leases: status.Leases{Config: []byte(`{"Network":"10.5.0.0/16"}`), Leases: []status.LeaseEntry{{Key: "10.5.7.0-24", State: status.LeaseAccepted}}},
	}
	path := filepath.Join(t.TempDir(), "report.tar.gz")
	o := options.Options{Output: answer.Text, StatusSocket: d.serve(t), ReportFile: path}
	var out bytes.Buffer
	if err := testProgram().reportBug(o, &out); err != nil || strings.Contains(out.String(), "lacks") {
		t.Errorf("%v: %s", err, out.String())
	}
	files := archivetest.Texts(t, path)
	for name, part := range map[string]string{
		"tulle/flags.txt": "--iface=eth1\n--etcd-password=…\n", "tulle/leases.txt": "10.5.7.0-24", "tulle/leases.json": `"Network": "10.5.0.0/16"`,
		"tulle/status.txt": "ready", "tulle/status.json": `"ready": true`, "tulle/version.txt": "devel",
	} {
		if !strings.Contains(files[name], part) {
			t.Errorf("%s lacks %q:\n%s", name, part, files[name])
		}
	}

	out.Reset()
	o.StatusSocket, o.Etcd.CAFile = "/nowhere", "/nowhere/ca.pem"
	if err := testProgram().reportBug(o, &out); err != nil {
		t.Error(err)
	}
	for _, part := range []string{"the report lacks the daemon's state: no daemon answers at /nowhere", "the report lacks config and leases: ", "wrote " + path} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is not in\n%s", part, out.String())
		}
	}

	o.ReportFile = filepath.Join(filepath.Dir(path), "new/report.tar.gz")
	if err := testProgram().reportBug(o, &out); err == nil || !strings.Contains(err.Error(), "create the folder") {
		t.Errorf("in a folder that does not exist: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(o.ReportFile)); err == nil {
		t.Error("bugreport creates a folder")
	}
}
