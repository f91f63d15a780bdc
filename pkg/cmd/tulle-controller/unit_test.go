package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/test/unittest"
)

// TestUnitAndItsSettingsAreUnderstood runs the command line of the unit with every
// variable that the file of settings suggests.
func TestUnitAndItsSettingsAreUnderstood(t *testing.T) {
	environ, args := unittest.Settings(t, "../../../dist/systemd/tulle-controller.default")
	if len(environ) < 7 || len(args) == 0 {
		t.Fatalf("the file suggests %q and %q", environ, args)
	}
	unit, err := os.ReadFile("../../../dist/systemd/tulle-controller.service")
	if err != nil {
		t.Fatal(err)
	}
	_, command, _ := strings.Cut(string(unit), "\nExecStart=/usr/bin/tulle-controller ")
	command, _, _ = strings.Cut(command, "\n")
	command, ends := strings.CutSuffix(strings.ReplaceAll(command, "${CREDENTIALS_DIRECTORY}", "/run/credentials"), " $OPTIONS")
	if !ends {
		t.Errorf("the unit runs %q", command)
	}
	var s settings
	given, err := s.program().Read(append(strings.Fields(command), args...), environ)
	if err == nil {
		err = given.Apply()
	}
	if err == nil {
		err = s.check(given)
	}
	if err != nil || s.kubeconfig != "/run/credentials/kubeconfig" || len(s.cluster) == 0 {
		t.Errorf("%v: %+v", err, s)
	}
}

// TestUnitReadsAKeyOfGoogles checks that the drop-in of the page leads the unit to the key
// that systemd shows it.
func TestUnitReadsAKeyOfGoogles(t *testing.T) {
	text, err := os.ReadFile("../../../Documentation/controller-google.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`LoadCredential=([^:]+):(/etc/tulle/\S+)\nEnvironment=GOOGLE_APPLICATION_CREDENTIALS=(\S+)\n`).FindStringSubmatch(string(text))
	if m == nil {
		t.Fatal("the page has no such drop-in")
	}
	// systemd shows the credentials of a unit in a folder of the unit's name.
	if want := "/run/credentials/tulle-controller.service/" + m[1]; m[3] != want {
		t.Errorf("the variable names %s, want %s", m[3], want)
	}
	if !strings.Contains(string(text), "/etc/systemd/system/tulle-controller.service.d/") {
		t.Error("the page does not say where the drop-in goes")
	}
}

// TestUnitOfHostsWithoutKubernetes runs the command line of the drop-in with the settings
// of the page.
func TestUnitOfHostsWithoutKubernetes(t *testing.T) {
	const dist, name = "../../../dist/systemd/tulle-controller.service.d/", "00-etcd.conf"
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	dropIn := read(dist + name)
	for _, reset := range []string{"\nLoadCredential=\n", "\nExecStart=\n"} {
		if !strings.Contains(dropIn, reset) {
			t.Errorf("the drop-in keeps what the unit has: no line %q", reset)
		}
	}
	_, command, _ := strings.Cut(dropIn, "\nExecStart=/usr/bin/tulle-controller ")
	command, ends := strings.CutSuffix(strings.TrimSpace(command), " $OPTIONS")
	if !ends {
		t.Errorf("the drop-in runs %q", command)
	}
	for _, m := range regexp.MustCompile(`\$\{CREDENTIALS_DIRECTORY\}/(\S+)`).FindAllStringSubmatch(command, -1) {
		if !strings.Contains(dropIn, "\nLoadCredential="+m[1]+":/etc/tulle/"+m[1]+"\n") {
			t.Errorf("systemd loads no %s", m[1])
		}
	}
	// It takes all credentials away. So it must come before those that give some.
	others, err := filepath.Glob(dist + "*.conf")
	if err != nil || len(others) < 2 || filepath.Base(others[0]) != name {
		t.Errorf("the drop-ins are %q, %v", others, err)
	}
	for _, path := range others {
		if text := read(path); !strings.Contains(text, "\n# /etc/systemd/system/tulle-controller.service.d/"+filepath.Base(path)+".\n") {
			t.Errorf("%s does not say where it goes", path)
		}
	}

	page := read("../../../Documentation/cloud-routes.md")
	if !strings.Contains(page, "cp /usr/share/doc/tulle/examples/tulle-controller.service.d/"+name+" /etc/systemd/system/tulle-controller.service.d/\n") {
		t.Error("the page does not say where the drop-in goes")
	}
	_, section, _ := strings.Cut(page, "\n### As a unit\n")
	_, section, _ = strings.Cut(section, "```\n# /etc/default/tulle-controller\n")
	file, _, found := strings.Cut(section, "```")
	if !found {
		t.Fatal("the page has no settings")
	}
	var s settings
	given, err := s.program().Read(strings.Fields(strings.ReplaceAll(command, "${CREDENTIALS_DIRECTORY}", "/run/credentials")), strings.Fields(file))
	if err == nil {
		err = given.Apply()
	}
	if err == nil {
		err = s.check(given)
	}
	if err != nil || !s.inEtcd() || s.etcd.KeyFile != "/run/credentials/host.key" || s.cloud.provider != "aws" {
		t.Errorf("%v: %+v", err, s.etcd)
	}
}
