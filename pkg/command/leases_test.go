package command

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/subnet"
)

// silent returns the address of a server that takes connections and answers nothing.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "http://" + l.Addr().String()
}

// TestLeasesSayWhy: when the store does not answer in time, the error has the reason.
func TestLeasesSayWhy(t *testing.T) {
	before := storeLimit
	t.Cleanup(func() { storeLimit = before })
	storeLimit = 6 * time.Second // etcd's first try takes five
	good, bad := filepath.Join(t.TempDir(), "good.json"), filepath.Join(t.TempDir(), "bad.json")
	for path, text := range map[string]string{good: `{"Network": "10.5.0.0/16"}`, bad: `{"Network": 7}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var asked sync.WaitGroup
	for name, c := range map[string]struct{ args, says string }{
		"no etcd": {"--etcd-endpoints=http://127.0.0.1:1", "nothing listens at --etcd-endpoints"},
		// What the first try shows, or what its connection shows soon after.
		"a frozen etcd": {"--etcd-endpoints=" + silent(t), "answer"},
		"no API server": {"--kube-subnet-mgr --kube-api-url=http://127.0.0.1:1 --net-config-path=" + good, "nothing listens at the API server's address"},
		"a frozen one":  {"--kube-subnet-mgr --kube-api-url=" + silent(t) + " --net-config-path=" + good, "no answer within 6s"},
		"no file":       {"--kube-subnet-mgr --kube-api-url=http://127.0.0.1:1 --net-config-path=/nowhere", "open /nowhere: no such file"},
		"a bad file":    {"--kube-subnet-mgr --kube-api-url=http://127.0.0.1:1 --net-config-path=" + bad, "Network is 7: not a network"},
	} {
		p := testProgram()
		o, err := options.Parse(strings.Fields("leases "+c.args), nil, p.types())
		if err != nil {
			t.Fatal(err)
		}
		asked.Go(func() {
			_, err := readLeases(o, p.backends)
			if text := fmt.Sprint(err); !strings.Contains(text, c.says) || strings.Contains(text, "deadline") || strings.Contains(text, "rpc error") {
				t.Errorf("%s: got %q, want %q in it", name, text, c.says)
			}
		})
	}
	asked.Wait()
}

// TestLeasesListAllUnreadable lists more unreadable keys than a node remembers.
func TestLeasesListAllUnreadable(t *testing.T) {
	list := subnet.Update{Complete: true}
	for i := range 5000 {
		list.Bad = append(list.Bad, &subnet.LeaseError{Key: fmt.Sprintf("rubbish-%04d", i), Err: subnet.ErrKey})
	}
	list.Bad[7].Key = strings.Repeat("x", 1000)
	cfg, err := subnet.ParseConfig([]byte(`{"Network": "10.5.0.0/16"}`))
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]bool)
	for _, e := range judgeLeases(cfg, list) {
		listed[e.Key] = e.Why != ""
	}
	for _, b := range list.Bad {
		if !listed[b.Key] {
			t.Errorf("%.40s is not listed with a reason", b.Key)
		}
	}
}
