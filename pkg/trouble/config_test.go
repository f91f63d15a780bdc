package trouble

import (
	"errors"
	"testing"

	"github.com/tulle-net/tulle/pkg/test/logtest"
)

func TestConfigLogsEachReasonOnce(t *testing.T) {
	log := logtest.Capture(t, 0)
	missing, invalid := errors.New("missing"), errors.New("invalid")
	for _, first := range []bool{true, false} {
		o := Config(first)
		for _, err := range []error{missing, missing, invalid, nil} {
			o.Was(err, "path", "/config")
		}
	}
	for _, line := range [][]string{
		{`"Waiting for the network config"`, `err="missing"`, `path="/config"`},
		{`"Waiting for the network config"`, `err="invalid"`},
		{`"Network config unusable; keeping the previous one"`, `err="missing"`},
		{`"Network config unusable; keeping the previous one"`, `err="invalid"`},
		{`"Network config usable again"`},
	} {
		if n := log.Count(line...); n != 1 {
			t.Errorf("%d lines have %q, want 1", n, line)
		}
	}
}
