package web

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"
)

// TestAlertsByPromtool checks the alerts with promtool, and runs their own tests.
func TestAlertsByPromtool(t *testing.T) {
	promtool(t, "check", "rules", "../../dist/prometheus/tulle.rules.yml")
	promtool(t, "test", "rules", "../../dist/prometheus/tulle.rules.test.yml")
}

// promtool runs Prometheus's promtool, which must succeed.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := runPromtool(args...); err != nil {
		t.Errorf("promtool %q: %v\n%s", args, err, out)
	}
}

func runPromtool(args ...string) ([]byte, error) {
	return exec.Command("promtool", args...).CombinedOutput()
}

// TestAlertsAreDocumented: the alerts use existing metrics, and the page for
// operators explains each alert.
func TestAlertsAreDocumented(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile("../../" + path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	rules, page := read("dist/prometheus/tulle.rules.yml"), read("Documentation/operating.md")
	var there []string
	for _, m := range table() {
		there = append(there, regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(m.desc.String())[1])
	}
	asked := regexp.MustCompile(`tulle_\w+`).FindAllString(rules, -1)
	for _, name := range asked {
		if !slices.Contains(there, name) {
			t.Errorf("an alert asks for %s, which there is not", name)
		}
	}
	var alerts, explained []string
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(rules, -1) {
		alerts = append(alerts, m[1])
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(page, -1) {
		explained = append(explained, m[1])
	}
	if len(asked) == 0 || len(alerts) == 0 || !slices.Equal(alerts, explained) {
		t.Errorf("the alerts are %q, and explained are %q", alerts, explained)
	}
}
