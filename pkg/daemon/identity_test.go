package daemon

import (
	"testing"

	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/subnet"
)

// TestIdentify checks that settings override the machine's own identity.
func TestIdentify(t *testing.T) {
	n, err := identify(options.Node{ID: "machine", Name: "host"})
	if err != nil || n != (subnet.Node{ID: "machine", Name: "host"}) {
		t.Errorf("%+v, %v", n, err)
	}
	if n, err = identify(options.Node{ID: "machine"}); err != nil || n.Name == "" {
		t.Errorf("without a name: %+v, %v", n, err)
	}
	if _, err := identify(options.Node{ID: "a\nb"}); err == nil {
		t.Error("an ID of two lines is accepted")
	}
}
