package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"
)

// TestAlertsByPromtool checks the alerts with promtool, and runs their own tests.
func TestAlertsByPromtool(t *testing.T) {
	for _, args := range [][]string{
		{"check", "rules", "../../../dist/prometheus/tulle-controller.rules.yml"},
		{"test", "rules", "../../../dist/prometheus/tulle-controller.rules.test.yml"},
	} {
		if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
}

// TestAlertsAreDocumented checks that the alerts use existing metrics, and that the page
// explains each alert.
func TestAlertsAreDocumented(t *testing.T) {
	rules, err := os.ReadFile("../../../dist/prometheus/tulle-controller.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var metrics, alerts, explained []string
	for _, m := range table() {
		metrics = append(metrics, regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(m.desc.String())[1])
	}
	for _, name := range regexp.MustCompile(`tulle_\w+`).FindAllString(string(rules), -1) {
		if !slices.Contains(metrics, name) {
			t.Errorf("an alert needs %s, which does not exist", name)
		}
	}
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		alerts = append(alerts, m[1])
	}
	for _, r := range row.FindAllStringSubmatch(pageSection(t, "## Alerts"), -1) {
		explained = append(explained, r[1])
	}
	if len(alerts) == 0 || !slices.Equal(alerts, explained) {
		t.Errorf("the alerts are %q, and the page explains %q", alerts, explained)
	}
}
