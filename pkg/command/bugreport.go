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
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/keepfile"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/status"
)

// commands are what a bug report runs, as far as the host has them. None shows a key
// or a password: systemctl status would, because it shows command lines.
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
	// commandLimit is the time limit of a command, and most the limit of the output that
	// is kept: on a large host that can be much.
	commandLimit = 20 * time.Second
	most         = 32 << 20
)

// stableSecret matches the secret from which a host makes IPv6 addresses that do not
// identify it.
var stableSecret = regexp.MustCompile(`(stable_secret = ).*`)

// reportBug writes what helps to find a fault into one archive.
func (p program) reportBug(o options.Options, out io.Writer) error {
	path := o.ReportFile
	if path == "" {
		path = "tulle-bugreport-" + time.Now().UTC().Format("20060102-150405") + ".tar.gz"
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("%w; create the folder, or name another file", err)
	}
	answered := reportAnswer{File: path}
	err := keepfile.Write(path, 0o600, func(to io.Writer) error {
		zipped := gzip.NewWriter(to)
		a := archive{tar.NewWriter(zipped), time.Now()}
		missing, err := a.daemon(o)
		if missing != nil {
			answered.Missing = append(answered.Missing, "the daemon's state: "+missing.Error())
			missing, err = p.addStore(a, o)
		}
		if missing != nil {
			answered.Missing = append(answered.Missing, "config and leases: "+missing.Error())
		}
		err = errors.Join(err, a.version(o, p.version), a.files(o), a.host())
		return errors.Join(err, a.Close(), zipped.Close())
	})
	if err != nil {
		return err
	}
	return answer.Write(o.Output, out, "bugreport", answered, func() error {
		for _, m := range answered.Missing {
			fmt.Fprintf(out, "the report lacks %s\n", m)
		}
		_, err := fmt.Fprintf(out, "wrote %s; review it before you share it: it has this host's addresses, rules and peers\n", path)
		return err
	})
}

// reportAnswer names the archive that a bug report wrote.
type reportAnswer struct {
	File    string   `json:"file"`
	Missing []string `json:"missing,omitempty"` // what the report lacks, and why
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

// daemon adds the daemon's own report, with its flags, the config in force and all
// leases. It returns why that is missing.
func (a archive) daemon(o options.Options) (missing, err error) {
	client, ctx := status.Dial(o.StatusSocket, options.Name("status-socket")), context.Background()
	r, err := client.Report(ctx)
	if err != nil {
		return err, a.add("status.txt", fmt.Appendln(nil, err))
	}
	var text bytes.Buffer
	fails := func(err error) {
		if err != nil {
			missing = errors.Join(missing, err)
			fmt.Fprintln(&text, err)
		}
	}
	fails(status.WriteReport(&text, options.Program, r, client.Now()))
	peers, err := client.Peers(ctx)
	fails(err)
	fails(status.WritePeers(&text, peers, client.Now(), status.Layout{}))
	leases, err := client.Leases(ctx)
	fails(err)
	both, err := json.MarshalIndent(map[string]any{"status": r, "peers": peers}, "", "  ")
	return missing, errors.Join(err, a.add("status.txt", text.Bytes()), a.add("status.json", both), a.leases(leases),
		a.add("flags.txt", []byte(strings.Join(r.Flags, "\n")+"\n")))
}

// leases adds the config and all leases.
func (a archive) leases(l status.Leases) error {
	var table, text bytes.Buffer
	err := writeLeases(&table, l.Leases)
	return errors.Join(err, answer.Write(answer.JSON, &text, "leases", l, nil), a.add("leases.txt", table.Bytes()), a.add("leases.json", text.Bytes()))
}

// addStore adds the config and all leases from the store. It returns why they are
// missing.
func (p program) addStore(a archive, o options.Options) (missing, err error) {
	l, missing := readLeases(o, p.backends)
	if missing != nil {
		return missing, nil
	}
	return nil, a.leases(l)
}

// version adds this program's version and command line.
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
