package command

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/keepfile"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/status"
)

// commands are what a bug report runs, as far as the host has them. None shows
// a key or a password: systemctl status would, for it shows command lines.
var commands = []string{
	"uname -a",
	"ip -s -d link show",
	"ip address show",
	"ip route show table all",
	"ip -6 route show table all",
	"ip rule show",
	"ip -6 rule show",
	"ip neigh show",
	"ip -6 neigh show",
	"bridge fdb show",
	"ss -u -l -n -p",
	"nft list ruleset",
	"iptables-save -c",
	"ip6tables-save -c",
	"iptables-legacy-save -c",
	"ip6tables-legacy-save -c",
	"sysctl net.ipv4.conf net.ipv6.conf net.ipv4.ip_forward net.netfilter net.bridge",
	"lsmod",
	"systemctl show tulled docker containerd kubelet --no-pager --property=Id,LoadState,ActiveState,SubState,StateChangeTimestamp,Result," +
		"StatusText,NRestarts,ExecMainStatus,MemoryCurrent,TasksCurrent,CPUUsageNSec,FragmentPath,DropInPaths",
	"journalctl -u tulled -n 5000 --no-pager",
}

const (
	// commandLimit is how long a command may take, and most how much of its output
	// is kept: on a large host that can be much.
	commandLimit = 20 * time.Second
	most         = 32 << 20
)

// stableSecret matches the secret from which a host makes IPv6 addresses that do
// not identify it.
var stableSecret = regexp.MustCompile(`(stable_secret = ).*`)

// reportBug writes what helps to find a fault into one archive.
func reportBug(o options.Options, version string, out io.Writer) error {
	path := o.ReportFile
	if path == "" {
		path = "tulle-bugreport-" + time.Now().UTC().Format("20060102-150405") + ".tar.gz"
	}
	err := keepfile.Write(path, 0o600, func(to io.Writer) error {
		zipped := gzip.NewWriter(to)
		a := archive{tar.NewWriter(zipped), time.Now()}
		err := errors.Join(a.daemon(o), a.version(o, version), a.files(o), a.host())
		return errors.Join(err, a.Close(), zipped.Close())
	})
	if err == nil {
		_, err = fmt.Fprintf(out, "wrote %s; review it before you share it: it has this host's addresses, rules and peers\n", path)
	}
	return err
}

// archive is a bug report that is being written.
type archive struct {
	*tar.Writer
	now time.Time
}

// add writes a file of the archive. It fails only if the archive cannot be
// written.
func (a archive) add(name string, content []byte) error {
	if len(content) > most {
		content = append(content[:most:most], "\n... truncated\n"...)
	}
	if err := a.WriteHeader(&tar.Header{Name: "tulle/" + name, Mode: 0o600, Size: int64(len(content)), ModTime: a.now}); err != nil {
		return err
	}
	_, err := a.Write(content)
	return err
}

// daemon asks the daemon, if one runs.
func (a archive) daemon(o options.Options) error {
	client, ctx := status.Dial(o.StatusSocket), context.Background()
	var text bytes.Buffer
	r, err := client.Report(ctx)
	if err == nil {
		err = status.WriteReport(&text, r, a.now)
	}
	if err != nil {
		fmt.Fprintln(&text, err)
	}
	peers, err := client.Peers(ctx)
	if err == nil {
		err = status.WritePeers(&text, peers, a.now)
	}
	if err != nil {
		fmt.Fprintln(&text, err)
	}
	both, err := json.MarshalIndent(map[string]any{"status": r, "peers": peers}, "", "  ")
	return errors.Join(err, a.add("status.txt", text.Bytes()), a.add("status.json", both))
}

// version adds what this program is and how it was called.
func (a archive) version(o options.Options, version string) error {
	return a.add("version.txt", fmt.Appendf(nil, "%s\nflags of this command: %s\n", version, o))
}

// files adds the files that tulled writes, which have no secrets.
func (a archive) files(o options.Options) error {
	var all []error
	for name, path := range map[string]string{"subnet.env": o.SubnetFile, "cni.conflist": o.CNIConfFile} {
		if path == "" {
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			content = fmt.Appendln(nil, err)
		}
		all = append(all, a.add(name, content))
	}
	return errors.Join(all...)
}

// host adds the output of the host's own commands.
func (a archive) host() error {
	var all []error
	for _, line := range commands {
		words := strings.Fields(line)
		if _, err := exec.LookPath(words[0]); err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
		out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
		cancel()
		if err != nil {
			out = fmt.Appendf(out, "\n%v\n", err)
		}
		out = stableSecret.ReplaceAll(out, []byte("$1…"))
		name, _, _ := strings.Cut(line, " --")
		name = strings.NewReplacer(" ", "_", "/", "_").Replace(name)
		all = append(all, a.add("host/"+name+".txt", append(fmt.Appendf(nil, "$ %s\n", line), out...)))
	}
	return errors.Join(all...)
}
