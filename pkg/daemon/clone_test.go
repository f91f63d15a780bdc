package daemon

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/identity"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/subnet"
)

// freePort returns a UDP port at which no process listens.
func freePort(t *testing.T) uint16 {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Port()
}

// TestLives asks at the address of a lease: where a copy of this installation
// answers, where another one does, and where no daemon runs.
func TestLives(t *testing.T) {
	port := freePort(t)
	open := func(dir string) installation {
		o := options.Options{StateDir: dir, Probes: options.Probes{Interval: time.Second, Port: port}}
		return openInstallation(o, subnet.Node{ID: "machine"})
	}
	dir, copied := t.TempDir(), t.TempDir()
	here := open(dir)
	text, err := os.ReadFile(identity.Path(dir))
	if err == nil {
		err = os.WriteFile(identity.Path(copied), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	own := here.identity.Node().Instance
	at := func(ip, instance string) subnet.Lease {
		return subnet.Lease{Attrs: subnet.Attrs{PublicIP: subnet.Pair[netip.Addr]{netip.MustParseAddr(ip)}, Node: subnet.Node{ID: "machine", Instance: instance}}}
	}
	for dir, isCopy := range map[string]bool{copied: true, t.TempDir(): false} {
		there := open(dir)
		there.presence.Set([]netip.Addr{netip.MustParseAddr("127.0.0.2")}, identity.Keys(there.identity.Node()))
		for instance, want := range map[string]bool{own: isCopy, "another": true, "": true} {
			if got := here.asks()(t.Context(), at("127.0.0.2", instance)); got != want {
				t.Errorf("copy %t: the holder of a lease of instance %q lives: %t", isCopy, instance, got)
			}
		}
		stranger := at("127.0.0.2", "another")
		stranger.Node.ID = "another machine"
		if here.lives(t.Context(), stranger) {
			t.Errorf("copy %t: the holder of another machine's lease lives here", isCopy)
		}
		there.presence.Close()
	}
	if here.lives(t.Context(), at("127.0.0.3", own)) || here.lives(t.Context(), subnet.Lease{}) {
		t.Error("where no daemon is, one lives")
	}
}

func TestFixNamesWhereTheIDIsFrom(t *testing.T) {
	for id, want := range map[string]string{"": "systemd-machine-id-setup", "machine": "--node-id"} {
		i := openInstallation(options.Options{Node: options.Node{ID: id}}, subnet.Node{ID: "machine"})
		if fix := i.identity.Fix(); !strings.Contains(fix, want) {
			t.Errorf("the fix of %q is %s", id, fix)
		}
		if i.asks() != nil {
			t.Error("without probes a host is asked")
		}
	}
}

// TestNodesHaveNoInstance checks that no host keeps an identity in Kubernetes, where
// the Node's name distinguishes hosts.
func TestNodesHaveNoInstance(t *testing.T) {
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"a","contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],`+
		`"clusters":[{"name":"a","cluster":{"server":"http://127.0.0.1:1"}}],"users":[{"name":"a","user":{}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	o := options.Options{StateDir: filepath.Join(dir, "state"), Kube: options.Kube{On: true, Kubeconfig: kubeconfig, NodeName: "node-7", Prefix: "flannel.alpha.coreos.com"}}
	p, err := openNodeStore(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.node != (subnet.Node{ID: "node-7", Name: "node-7"}) || p.identity != nil || p.presence != nil || p.asks() != nil {
		t.Errorf("it is %+v, with %+v", p.node, p.installation)
	}
	if _, err := os.Stat(o.StateDir); err == nil {
		t.Error("it has a state folder")
	}
}
