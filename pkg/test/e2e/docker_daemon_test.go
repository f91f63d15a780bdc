package e2e

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/envfile"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/dockertest"
	"github.com/tulle-net/tulle/subnet"
)

const optionsScript = "../../../dist/docker/mk-docker-opts.sh"

// docker is a dockerd on a host, with the options from the host's env file.
type docker struct {
	*dockertest.Docker
	w    *world
	host *clustertest.Host
}

// startDocker waits for the host's env file, and starts a dockerd.
func (w *world) startDocker(h *clustertest.Host, control string) *docker {
	w.t.Helper()
	d := &docker{dockertest.New(w.t, h, control), w, h}
	d.start()
	return d
}

func (d *docker) start() {
	t := d.w.t
	t.Helper()
	d.w.eventually(func() error { _, err := os.Stat(d.host.SubnetFile); return err })
	options := filepath.Join(d.host.Dir, "docker_opts.env")
	if out, err := exec.Command(optionsScript, "-f", d.host.SubnetFile, "-d", options, "-c").CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", optionsScript, err, out)
	}
	text, err := os.ReadFile(options)
	if err != nil {
		t.Fatal(err)
	}
	// systemd reads it in this way.
	value, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "DOCKER_OPTS=")
	if !ok {
		t.Fatalf("the options are %q", text)
	}
	d.Start(strings.Fields(strings.Trim(value, `"`))...)
}

// image returns the root of containers that have a busybox and nothing else.
func image(t *testing.T) []byte {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err = w.WriteHeader(&tar.Header{Name: "busybox", Mode: 0o755, Size: int64(len(binary))})
	if err == nil {
		_, err = w.Write(binary)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// container returns a running container as a pod.
func (d *docker) container(name string) *clustertest.Pod {
	t := d.w.t
	t.Helper()
	env, err := envfile.Read(d.host.SubnetFile)
	if err != nil {
		t.Fatal(err)
	}
	p := &clustertest.Pod{Host: d.host, MTU: env.MTU}
	d.w.eventually(func() error {
		out, err := d.Try(nil, "inspect", name)
		if err != nil {
			return err
		}
		var found []struct {
			State           struct{ Running bool }
			NetworkSettings struct {
				SandboxKey string
				Networks   map[string]struct{ IPAddress string }
			}
		}
		if err := json.Unmarshal([]byte(out), &found); err != nil || len(found) != 1 || !found[0].State.Running {
			return fmt.Errorf("%s does not run on %s: %w: %s", name, d.host.Name, err, out)
		}
		net := found[0].NetworkSettings
		p.Addr[subnet.IPv4], err = netip.ParseAddr(net.Networks["bridge"].IPAddress)
		// The path goes through dockerd's root directory, because no other process sees
		// its mounts.
		p.NS = &kerneltest.NS{Name: d.host.Name + "-" + name, Path: fmt.Sprintf("/proc/%d/root/run/docker/netns/%s", d.PID, filepath.Base(net.SandboxKey))}
		return err
	})
	if a := p.Addr[subnet.IPv4]; !env.Subnets[subnet.IPv4].Contains(a) {
		t.Fatalf("%s of %s has %s, which is not in %s", name, d.host.Name, a, env.Subnets[subnet.IPv4])
	}
	return p
}
