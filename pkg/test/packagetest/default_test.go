package packagetest

import (
	"testing"

	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/test/unittest"
)

// TestDefaultFile checks that every variable in the file is one of tulled's.
func TestDefaultFile(t *testing.T) {
	environ, args := unittest.Settings(t, "../../../dist/systemd/tulled.default")
	if len(environ) < 5 || len(args) < 2 {
		t.Fatalf("the file suggests %q and %q", environ, args)
	}
	o, err := options.Parse(args, environ, []string{"vxlan"})
	if err != nil || len(o.Warnings) > 0 {
		t.Errorf("%v, %q", err, o.Warnings)
	}
}
