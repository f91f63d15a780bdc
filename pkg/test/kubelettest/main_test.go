//go:build kubelet

package kubelettest

import (
	"os"
	"testing"

	"github.com/tulle-net/tulle/pkg/test/etcdtest"
)

func TestMain(m *testing.M) {
	superviseMain()
	etcdtest.Main()
	os.Exit(m.Run())
}
