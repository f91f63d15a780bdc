package firewall

import (
	"testing"

	"github.com/tulle-net/tulle/pkg/test/logtest"
)

// log is what the keeper has logged. A test that reads it clears it first.
var log logtest.Log

func TestMain(m *testing.M) {
	log.Keep()
	m.Run()
}
