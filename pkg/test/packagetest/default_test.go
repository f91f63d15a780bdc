package packagetest

import (
	"os"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/options"
)

// TestDefaultFile checks that every variable in the file is one of tulled's.
func TestDefaultFile(t *testing.T) {
	text, err := os.ReadFile("../../../dist/systemd/tulled.default")
	if err != nil {
		t.Fatal(err)
	}
	var environ, args []string
	for line := range strings.Lines(string(text)) {
		name, value, found := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "#"), "=")
		switch {
		case !found || strings.Contains(name, " "):
		case name == "OPTIONS":
			args = strings.Fields(strings.Trim(value, `"`))
		default:
			environ = append(environ, name+"="+value)
		}
	}
	if len(environ) < 5 || len(args) < 2 {
		t.Fatalf("the file suggests %q and %q", environ, args)
	}
	o, err := options.Parse(args, environ, []string{"vxlan"})
	if err != nil || len(o.Warnings) > 0 {
		t.Errorf("%v, %q", err, o.Warnings)
	}
}
