package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// poolFile is a file of pools that a test changes.
type poolFile struct {
	t    testing.TB
	path string
}

func newPoolFile(t testing.TB, text string) poolFile {
	f := poolFile{t, filepath.Join(t.TempDir(), "pools.yaml")}
	f.write(text)
	return f
}

// write replaces the file, as editors do.
func (f poolFile) write(text string) {
	f.t.Helper()
	for _, err := range []error{os.WriteFile(f.path+".new", []byte(text), 0o644), os.Rename(f.path+".new", f.path)} {
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

// zones is a file with a pool for a label, and one for all other Nodes.
const zones = `
pools:
- name: zone-a
  nodeSelector: {zone-a: "true"}
  ipv4: {ranges: [%s], blockBits: 26}
- name: others
  ipv4: {ranges: [10.9.0.0/16]}
`

// alone returns flags with which all podCIDRs come from the file.
func (f poolFile) alone(c cluster, more ...string) []string {
	return append([]string{"--master=" + c.URL, "--allocate-node-cidrs", "--healthz-port=0", "--leader-elect=false", "--node-pools=" + f.path}, more...)
}

// wantPools waits until the text of the command ipam has all parts, as the program shows
// it.
func (r *running) wantPools(parts ...string) {
	r.t.Helper()
	kerneltest.Eventually(r.t, patience, func() error {
		var out bytes.Buffer
		if err := newIPAMAnswer(r.read(r.t.Context()).ipam).write(&out); err != nil {
			return err
		}
		text := strings.Join(strings.Fields(out.String()), " ")
		for _, part := range parts {
			if !strings.Contains(text, part) {
				return fmt.Errorf("%q is not in\n%s", part, out.String())
			}
		}
		return nil
	})
}

// TestPoolsComeFromAFile: Nodes get podCIDRs of the pool that selects them. The file
// grows and drains a pool while the program runs, and a bad version of it changes
// nothing but what people read.
func TestPoolsComeFromAFile(t *testing.T) {
	c := newCluster(t)
	f := newPoolFile(t, fmt.Sprintf(zones, "10.1.0.0/26"))
	p, err := settingsOf(t, f.alone(c)...).connect()
	if err != nil {
		t.Fatal(err)
	}
	r := c.run(p)
	c.node("a1", "zone-a")
	c.node("b1")
	c.wantCIDR("a1", "10.1.0.0/26")
	c.wantCIDR("b1", "10.9.0.0/24")

	f.write(fmt.Sprintf(zones, "10.1.0.0/26, 10.2.0.0/25"))
	r.wantPools("zone-a IPv4 /26 3 1 2 0 0 0 /25")
	c.node("a2", "zone-a")
	c.wantCIDR("a2", "10.2.0.0/26")

	f.write(fmt.Sprintf(zones, "10.1.0.1/26"))
	r.wantPools("zone-a IPv4 /26 3 2 1", "pools[0].ipv4.ranges[0]: 10.1.0.1/26 has host bits; write 10.1.0.0/26; the previous pools stay in force")
	w := httptest.NewRecorder()
	r.mux().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if part := `tulle_controller_pool_problems{source="file"} 1`; !strings.Contains(w.Body.String(), part) {
		t.Errorf("there is no %s", part)
	}
	c.node("a3", "zone-a")
	c.wantCIDR("a3", "10.2.0.64/26")

	f.write(strings.Replace(fmt.Sprintf(zones, "10.1.0.0/26, 10.2.0.0/24"), "blockBits: 26", "blockBits: 26, drainingRanges: [10.2.0.0/24]", 1))
	r.wantPools("zone-a IPv4 /26 5 3 0 0 0 2 –")
	if problems := r.read(t.Context()).ipam.Problems; len(problems) > 0 {
		t.Errorf("%+v", problems)
	}
	c.node("a4", "zone-a")
	c.wantCIDR("a4", "10.9.1.0/24")
}

// TestFileBesideClusterCIDR: the range of the flags is one more pool, for the Nodes that
// no other takes.
func TestFileBesideClusterCIDR(t *testing.T) {
	c := newCluster(t)
	f := newPoolFile(t, "pools: [{name: zone-a, nodeSelector: {zone-a: 'true'}, ipv4: {ranges: [10.1.0.0/16]}}]")
	c.start("--node-pools="+f.path, "--leader-elect=false")
	c.node("a", "zone-a")
	c.node("b")
	c.wantCIDR("a", "10.1.0.0/24")
	c.wantCIDR("b", "10.64.0.0/24")
}

// TestPlanUsesTheFile: dry runs read the file, too.
func TestPlanUsesTheFile(t *testing.T) {
	c := newCluster(t)
	f := newPoolFile(t, fmt.Sprintf(zones, "10.1.0.0/24"))
	c.node("a", "zone-a")
	c.node("b")
	var out bytes.Buffer
	if err := settingsOf(t, append([]string{"plan"}, f.alone(c)...)...).plan(&out); !errors.Is(err, errPending) {
		t.Fatal(err)
	}
	for _, part := range []string{"Node a  set podCIDRs 10.1.0.0/26", "Node b  set podCIDRs 10.9.0.0/24"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is not in\n%s", part, out.String())
		}
	}
	out.Reset()
	if err := settingsOf(t, append([]string{"ipam"}, f.alone(c)...)...).ipam(&out); err != nil || !strings.Contains(out.String(), "others  IPv4    /24     256    0     256") {
		t.Errorf("%v, %s", err, out.String())
	}
}

// TestObserverFollowsTheFile: what would be written is planned again when the file
// changes.
func TestObserverFollowsTheFile(t *testing.T) {
	c := newCluster(t)
	f := newPoolFile(t, "pools: [{name: a, ipv4: {ranges: [10.1.0.0/24]}}]")
	p, err := settingsOf(t, f.alone(c, "--mode=observe")...).connect()
	if err != nil {
		t.Fatal(err)
	}
	r := c.run(p)
	c.node("a")
	c.node("b")
	r.await("1 writes would be made")
	f.write("pools: [{name: a, ipv4: {ranges: [10.1.0.0/23]}}]")
	r.await("2 writes would be made")
}

// TestBadFileOfPoolsIsRefusedAtTheStart with the place and the fix.
func TestBadFileOfPoolsIsRefusedAtTheStart(t *testing.T) {
	f := newPoolFile(t, "pools: [{name: a, ipv4: {range: [10.1.0.0/24]}}]")
	with := func(more ...string) []string {
		return append([]string{"--allocate-node-cidrs", "--node-pools=" + f.path}, more...)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{with(), `pools[0].ipv4: unknown key "range"; did you mean ranges?`},
		{[]string{"--node-pools=" + f.path}, "has no effect without --allocate-node-cidrs"},
		{[]string{"--allocate-node-cidrs", "--node-pools=" + f.path + ".none"}, "no such file or directory; name a file that this program may read"},
		{[]string{"--allocate-node-cidrs"}, "needs --cluster-cidr or --node-pools"},
		{with("--cidr-allocator-type=CloudAllocator"), "has no effect with --cidr-allocator-type=CloudAllocator"},
		{with("--node-cidr-mask-size=24"), "has no effect without --cluster-cidr"},
	} {
		err := run(c.args, nil, new(bytes.Buffer))
		var out bytes.Buffer
		if code := exit(err, &out); code != exitUsage || !strings.Contains(out.String(), c.want) {
			t.Errorf("%q: %d, %s; want %s", c.args, code, out.String(), c.want)
		}
	}
}
