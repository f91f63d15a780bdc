package command

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/hostgw"
	"github.com/tulle-net/tulle/backend/vxlan"
	"github.com/tulle-net/tulle/subnet"
)

func testProgram() program {
	return program{"devel", map[string]backend.Factory{hostgw.Type: hostgw.New, vxlan.Type: vxlan.New}}
}

// TestCommands runs each command that needs no daemon.
func TestCommands(t *testing.T) {
	p := testProgram()
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(`{"Network": "10.5.0.0/16", "Backend": {"Type": "host-gw"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(key, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	const open = " has mode 0644, so every user of this host may read it; run: chmod o-rwx "
	plugins := t.TempDir()
	if err := os.WriteFile(filepath.Join(plugins, "bridge"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, in  string
		out, fail string // a part of the output, or of the error
	}{
		{args: "--version", out: "devel\n"},
		{args: "--help", out: "--etcd-endpoints"},
		{args: "completion bash", out: `backend) _tulled_words "host-gw vxlan"`},
		{args: "check-config", in: `{"Network": "10.5.0.0/16"}`, out: "backend: vxlan"},
		{args: "check-config", in: `{"Network": "10.5.0.0/16", "EnableNFTables": false}`, out: "firewall: iptables on hosts without --filter\n"},
		{args: "check-config " + file, out: "IPv4: 10.5.0.0/16, 255 subnets of /24 from 10.5.1.0 to 10.5.255.0\nbackend: host-gw\ncontainer MTU: 1500 on hosts whose uplink has 1500\nfirewall: chosen by each host\n"},
		{args: "check-config", in: `{"Network": "10.5.0.0/16", "Backend": {"Type": "pigeon"}}`, fail: "set it to one of host-gw, vxlan"},
		{args: "check-config", in: `{"Network": "10.5.0.0/16", "Backend": {"Type": "vxlan", "VNI": -1}}`, fail: "Backend.VNI"},
		{args: "check-config", in: `{"Network": "10.5.0.0/31"}`, fail: "Network"},
		{args: "check-config", in: `{"Network": "10.5.0.0/16", "Backend": {"Type": "vxlan", "VNI": 7}}`,
			out: "backend: vxlan, VNI 7, Port 8472, GBP false, Learning false, DirectRouting false, MTU of the uplink, Offload auto\ncontainer MTU: 1450 on hosts whose uplink has 1500\n"},
		{args: "check-config", in: `{"Network": "10.5.0.0/16", "Bakend": {}}`, out: "warning: Bakend: unknown key; did you mean Backend?\n"},
		{args: "check-config --strict", in: `{"Network": "10.5.0.0/16", "MTU": 1}`, out: "warning: MTU", fail: "--strict makes that an error"},
		{args: "check-config --strict", in: `{"Network": "10.5.0.0/16"}`, out: "IPv4: "},
		{args: "check-config", in: `{"Netwrok": "10.5.0.0/16"}`, out: "did you mean Network?", fail: "IPv4 is on and needs it"},
		{args: "check-config --output=json", in: `{"Network": "10.5.0.0/31", "MTU": 1}`, out: `"code": "misplaced-key"`, fail: "Network"},
		{args: "check-config --output=yaml", in: `{"Network": "10.5.0.0/16"}`, out: "  VNI: 1\n"},
		{args: "version --output=json", out: "{\n  \"schema\": \"tulle.version/v1\",\n  \"version\": \"devel\"\n}\n"},
		{args: "check-config --etcd-certfile=" + file + " --etcd-keyfile=" + key, in: `{"Network": "10.5.0.0/16"}`, out: "warning: --etcd-keyfile: " + key + open + key + "\n"},
		{args: "check-config --strict --etcd-certfile=" + file + " --etcd-keyfile=" + key, in: `{"Network": "10.5.0.0/16"}`, out: "warning: --etcd-keyfile", fail: "may read or write: 1; run the commands"},
		{args: "check-config --output=json --etcd-username=u --etcd-password-file=" + key, in: `{"Network": "10.5.0.0/16"}`, out: `"exposed": [
    "--etcd-password-file: ` + key + open},
		{args: "check-config /nowhere", fail: "no such file"},
		{args: "install-cni --cni-plugins=" + plugins + " " + plugins + "/bin", out: "installed " + plugins + "/bin/bridge\n"},
		{args: "install-cni --cni-plugins=/nowhere", fail: "in the folder cni of its archives"},
		{args: "--etcd-endpoint=x", fail: "did you mean --etcd-endpoints?"},
		{args: "leases --etcd-cafile=/nowhere", fail: "/nowhere"},
	} {
		var out bytes.Buffer
		err := p.run(strings.Fields(c.args), nil, strings.NewReader(c.in), &out)
		switch {
		case c.fail == "" && err != nil:
			t.Errorf("%q: %v", c.args, err)
		case c.fail != "" && (err == nil || !strings.Contains(err.Error(), c.fail)):
			t.Errorf("%q: the error %v does not contain %q", c.args, err, c.fail)
		case !strings.Contains(out.String(), c.out):
			t.Errorf("%q writes %q, which lacks %q", c.args, out.String(), c.out)
		}
	}
}

func TestWriteLeases(t *testing.T) {
	lease := func(key, at, name string) subnet.Lease {
		subnets, err := subnet.ParseKey(key)
		if err != nil {
			t.Fatal(err)
		}
		l := subnet.Lease{Subnets: subnets, Expires: time.Unix(1<<33, 0)}
		l.PublicIP[subnet.IPv4], l.BackendType, l.Node = netip.MustParseAddr(at), "vxlan", subnet.Node{Name: name, MTU: 1450}
		return l
	}
	reserved := lease("10.5.2.0-24", "192.0.2.2", "")
	reserved.Expires, reserved.Node = time.Time{}, subnet.Node{}
	list := subnet.Update{
		Complete: true,
		Leases:   []subnet.Lease{lease("10.5.10.0-24", "192.0.2.10", "ten"), lease("10.99.1.0-24", "192.0.2.9", "far"), reserved},
		Bad:      []*subnet.LeaseError{{Key: "10.5.3.0-24", Err: subnet.ErrValue}},
	}
	cfg, err := subnet.ParseConfig([]byte(`{"Network": "10.5.0.0/16"}`))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := writeLeases(&out, judgeLeases(cfg, list)); err != nil {
		t.Fatal(err)
	}
	const want = `SUBNET         NODE  ADDRESS     BACKEND  MTU   NOTE
10.5.2.0/24    -     192.0.2.2   vxlan    -     reservation
10.5.10.0/24   ten   192.0.2.10  vxlan    1450  
10.99.1.0/24   far   192.0.2.9   vxlan    1450  rejected: outside the network: 10.99.1.0/24 is no part of 10.5.0.0/16
"10.5.3.0-24"  -     -           -        -     rejected: not a lease value
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
