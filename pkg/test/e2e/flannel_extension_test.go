//go:build flannel

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestFlannelExtensionBeside gives one config to tulled and to flanneld, and compares what
// each hands to the commands: variables and standard input, to the byte.
func TestFlannelExtensionBeside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"pre", "post", "add", "remove"} {
		script := fmt.Sprintf(`#!/bin/sh
of=%s/$(hostname)-%s
{ env | grep -E '^(NETWORK|SUBNET|IPV6SUBNET|PUBLIC_IP|PUBLIC_IPV6)=' | sort; cat; } > "$of.new"
mv "$of.new" "$of"
[ %s != pre ] || printf ' of %%s "$(x)"\n' "$(hostname)"
`, dir, name, name)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	config := fmt.Sprintf(`{"Network": "10.5.0.0/16", "Backend": {"Type": "extension", "PreStartupCommand": "%[1]s/pre", "PostStartupCommand": "%[1]s/post", "SubnetAddCommand": "%[1]s/add", "SubnetRemoveCommand": "%[1]s/remove"}}`, dir)
	w := newWorld(t, 2, 1, config)
	ours, theirs := w.Hosts[0], w.Hosts[1]
	w.allowed(ours)
	w.startFlannel(theirs)
	subnets := make(map[string]string)
	for _, h := range w.Hosts {
		w.eventually(func() error {
			s, err := subnetsOf(h)
			if err == nil {
				subnets[h.Name] = s[0].Masked().String()
			}
			return err
		})
	}
	at := map[string]string{ours.Name: "198.18.0.1", theirs.Name: "198.18.0.2"}
	wants := func(host, command, want string) {
		t.Helper()
		w.eventually(func() error {
			got, err := os.ReadFile(filepath.Join(dir, host+"-"+command))
			if err != nil || string(got) != want {
				return fmt.Errorf("%s on %s had %q, %v; want %q", command, host, got, err, want)
			}
			return nil
		})
	}
	for host, peer := range map[string]string{ours.Name: theirs.Name, theirs.Name: ours.Name} {
		wants(host, "pre", "\n")
		wants(host, "post", fmt.Sprintf("IPV6SUBNET=::/0\nNETWORK=10.5.0.0/16\nPUBLIC_IP=%s\nPUBLIC_IPV6=<nil>\nSUBNET=%s\n\n", at[host], subnets[host]))
		wants(host, "add", fmt.Sprintf("PUBLIC_IP=%s\nSUBNET=%s\nof %s \"$(x)\"\n", at[peer], subnets[peer], peer))
	}
	gone := "10.5.250.0-24"
	w.lend(leasesKey+gone, `{"PublicIP":"198.18.0.250","BackendType":"extension","BackendData":"third"}`)
	third := "PUBLIC_IP=198.18.0.250\nSUBNET=10.5.250.0/24\nthird\n"
	for _, h := range w.Hosts {
		wants(h.Name, "add", third)
	}
	w.delete(leasesKey + gone)
	for _, h := range w.Hosts {
		wants(h.Name, "remove", third)
	}
}
