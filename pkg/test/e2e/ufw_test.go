package e2e

import (
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
)

// ufw runs a ufw command on a host. ufw's files are the host's own.
func ufw(h *clustertest.Host, line string) (string, error) {
	const view = `set -e
for folder in /etc/ufw /etc/default; do
	[ -e "$1$folder" ] || { mkdir -p "$1${folder%/*}" && cp -a "$folder" "$1$folder"; }
	mount --bind "$1$folder" "$folder"
done
mount --bind "$1/run" /run
! modprobe=$(command -v modprobe) || mount --bind /bin/true "$modprobe"
eval "$2"`
	out, err := h.NS.Command("sh", "-c", view, "sh", h.Dir, line).CombinedOutput()
	return string(out), err
}

// TestBesideUFW runs the real ufw on two hosts, whose policy for forwarded packets is
// DROP. The network works, also when ufw is reloaded, turned off and turned on.
func TestBesideUFW(t *testing.T) {
	t.Parallel()
	f := newFiltered(t, dualConfig, func(h *clustertest.Host) {
		// The tunnel's own packets enter the host, like those of any other service.
		if out, err := ufw(h, "ufw allow 8472/udp && ufw --force enable"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if out, err := h.NS.Command("iptables", "-S", "FORWARD").CombinedOutput(); err != nil || !strings.Contains(string(out), "-P FORWARD DROP") {
			t.Fatalf("ufw drops nothing on %s, so this test proves nothing: %v: %s", h.Name, err, out)
		}
	})
	f.besideAnother(func(*clustertest.Host) []string {
		return []string{"ufw reload", "ufw disable && ufw --force enable", "/lib/ufw/ufw-init force-reload"}
	}, ufw)
}
