package e2e

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/archivetest"
	"github.com/tulle-net/tulle/pkg/test/certtest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/etcdtest"
	"github.com/tulle-net/tulle/subnet"
)

// planted is the secrets, by the input that contains each.
type planted map[string]string

// plant returns a new secret.
func (p planted) plant(where string) string {
	p[where] = "zq" + strings.ReplaceAll(where, " ", "") + "7x"
	return p[where]
}

// plantKey adds the private key in a file.
func (p planted) plantKey(t *testing.T, where, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p[where] = strings.Split(string(text), "\n")[1]
}

// token matches the tokens that etcd issues for a password. What follows a dot is no
// token: a stack names gRPC's getChainStreamer.func1.getChainStreamer.1 while a stream
// waits for a connection.
var token = regexp.MustCompile(`(?:^|[^\w.])[a-zA-Z]{16}\.\d+\b`)

// absent fails the test for each secret that text contains, plain or encoded.
func (p planted) absent(t *testing.T, at, text string) {
	t.Helper()
	excerpt := func(i int) string { return strings.ToValidUTF8(text[max(0, i-200):min(len(text), i+200)], "") }
	lower := strings.ToLower(text)
	for where, secret := range p {
		for _, form := range []string{secret, hex.EncodeToString([]byte(secret)), base64.RawStdEncoding.EncodeToString([]byte(secret))} {
			if i := strings.Index(lower, strings.ToLower(form)); i >= 0 {
				t.Errorf("%s shows the secret of %s: …%s…", at, where, excerpt(i))
			}
		}
	}
	if found := token.FindStringIndex(text); found != nil {
		t.Errorf("%s shows what looks like a token of etcd: …%s…", at, excerpt(found[0]))
	}
}

func TestTokensAreFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"qTmxLoDFOvnYpQzW.17":                 true,
		"token: qTmxLoDFOvnYpQzW.17, expired": true,
		`{"token":"qTmxLoDFOvnYpQzW.17"}`:     true,
		"token=qTmxLoDFOvnYpQzW.17":           true,
		"google.golang.org/grpc.getChainStreamer.func1.getChainStreamer.1({0x1a8707": false,
		"qTmxLoDFOvnYpQzWa.17": false,
		"qTmxLoDFOvnYpQzW.a":   false,
	} {
		if got := token.MatchString(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestNoSecretIsShown plants a secret in every input, and searches every output for
// them, with the most verbose logs and while operations fail.
func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	p := make(planted)
	c := clustertest.New(t, clustertest.Options{Hosts: 4})
	w := &world{Cluster: c, t: t, daemons: make(map[*clustertest.Host]*clustertest.Daemon)}
	authority := certtest.New(t)
	files := certtest.NewFiles(t)
	authority.Write(files, clustertest.EtcdAddrs(1)[0], time.Hour)
	p.plantKey(t, "the key file", files.Key)
	w.etcd = etcdtest.Start(t, etcdtest.Options{
		Members: 1, Namespace: c.EtcdHost().NS.Name, Addresses: clustertest.EtcdAddrs(1), CertFile: files.Cert, KeyFile: files.Key, CAFile: files.CA,
	})
	good := p.plant("password of node")
	w.etcd.Protect(prefix, map[string]string{"node": good, "other": p.plant("password of other")})
	w.client = w.etcd.Client(t)
	const networks = `{"Network": "10.5.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:5::/48", `
	w.put(configKey, networks+`"Backend": {"Type": "vxlan", "PSK": "`+p.plant("PSK")+`", "PrivateKey": ["`+p.plant("PrivateKey")+`"]}}`)
	for key, value := range map[string]string{
		"10.5.70.0-24": `{"PublicIP":"198.18.0.70","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"3a:00:00:00:00:70","PSK":"` + p.plant("lease") + `"}}`,
		"10.5.71.0-24": `{"PublicIP":"198.18.0.71","BackendType":"vxlan","BackendData":"` + p.plant("BackendData as text") + `"}`,
		"10.5.72.0-24": `{"PublicIP":"198.18.0.72","BackendType":"vxlan","BackendData":{"VNI":{"PSK":"` + p.plant("VNI") + `"}}}`,
		"10.5.73.0-24": p.plant("lease that is no JSON"),
		"10.5.74.0-24": `{"PublicIP":"198.18.0.74","Tulle":"` + p.plant("Tulle") + `"}`,
	} {
		w.lend(leasesKey+key, value)
	}
	password := filepath.Join(t.TempDir(), "password")
	inFile := func(text string) {
		t.Helper()
		if err := os.WriteFile(password, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inFile(p.plant("wrong password"))

	byFlag, byVariable, byFile, embedded := w.Hosts[0], w.Hosts[1], w.Hosts[2], w.Hosts[3]
	store := []string{"--etcd-endpoints=" + w.etcd.Endpoints()[0], "--etcd-cafile=" + files.CA, "--etcd-certfile=" + files.Cert, "--etcd-keyfile=" + files.Key, "--etcd-username=node"}
	begin := func(h *clustertest.Host, variables []string, flags ...string) *clustertest.Daemon {
		t.Helper()
		command := tulled
		command.Env = append(variables, "FLANNELD_ETCD_PASWORD="+p.plant("misspelt variable"),
			"GRPC_GO_LOG_SEVERITY_LEVEL=info", "GRPC_GO_LOG_VERBOSITY_LEVEL=99", "ETCD_CLIENT_DEBUG=debug")
		w.daemons[h] = h.Start(command, append([]string{
			"--v=10", "--healthz-port=10256", "--pprof", "--ip-masq",
			"--node-id=" + h.Name, "--subnet-file=" + h.SubnetFile, "--state-dir=" + h.StateDir, "--cni-conf-file=" + h.CNIConfFile,
		}, flags...)...)
		return w.daemons[h]
	}
	begin(byFlag, nil, append([]string{"--etcd-password=" + good}, store...)...)
	begin(byVariable, []string{"TULLED_ETCD_PASSWORD=" + good, "FLANNELD_ETCD_PASSWORD=" + p.plant("variable that does not count")}, store...)
	begin(byFile, nil, append([]string{"--etcd-password-file=" + password}, store...)...)
	theirs, state := certtest.NewFiles(t), stateDir(t) // the hosts' disks are too small for an etcd
	authority.Write(theirs, embedded.Addr[subnet.IPv4], time.Hour)
	p.plantKey(t, "the embedded etcd's key file", theirs.Key)
	begin(embedded, nil, "--etcd-embedded", "--network=10.6.0.0/16", fmt.Sprintf("--etcd-listen=https://%s:2379", embedded.Addr[subnet.IPv4]),
		"--etcd-cafile="+theirs.CA, "--etcd-certfile="+theirs.Cert, "--etcd-keyfile="+theirs.Key,
		"--etcd-username=root", "--etcd-password", p.plant("embedded"), "--state-dir="+state)

	w.daemons[byFile].WaitLog("refuses the name or the password")
	look := func(h *clustertest.Host) {
		t.Helper()
		w.look(h, p, append([]string{"--etcd-password=" + good}, store...))
	}
	look(byFile) // while the store fails
	inFile(good)
	w.daemons[byFile].Signal(syscall.SIGHUP)
	for _, d := range w.daemons {
		d.WaitLog("Kernel in sync with all peers")
	}
	// These secrets are in unusable configs, and in a file that was replaced.
	for i, config := range []string{
		`"Backend": {"Type": "vxlan", "PSK": "` + p.plant("broken config"),
		`"Backend": "` + p.plant("Backend") + `"}`,
		`"SubnetLen": {"PSK": "` + p.plant("SubnetLen") + `"}}`,
		`"Backend": {"Type": {"PSK": "` + p.plant("Type") + `"}}}`,
		`"Backend": {"Type": "vxlan", "Port": ["` + p.plant("Port") + `"]}}`,
		`"Backend": {"Type": "vxlan", "VNI": {"PSK": "` + p.plant("VNI of a config") + `"}}}`,
	} {
		w.put(configKey, networks+config)
		w.eventually(func() error {
			log := w.daemons[byFlag].Log()
			if n := strings.Count(log, "Network config unusable") + strings.Count(log, "restart needed"); n <= i {
				return fmt.Errorf("saw %d configs, want %d", n, i+1)
			}
			return nil
		})
	}
	inFile(p.plant("first line") + "\n" + p.plant("second line"))
	w.daemons[byFile].Signal(syscall.SIGHUP)
	w.daemons[byFile].WaitLog("more than one line")
	byFlag.NS.Sysctl(t, "net/ipv6/conf/eth0/stable_secret", "fd00:5ec:2e7:1234:5678:9abc:def0:1111")
	p["stable_secret"] = "fd00:05ec:02e7:1234:5678:9abc:def0:1111"

	for _, h := range w.Hosts {
		look(h)
	}
	for _, h := range w.Hosts {
		d := w.daemons[h]
		d.Signal(syscall.SIGQUIT) // SIGQUIT prints all goroutines and ends the daemon
		if code := d.Wait(); code != 2 {
			t.Errorf("%s ended with %d", h.Name, code)
		}
		p.absent(t, "the log of "+h.Name, d.Log())
		w.readFiles(p, h.Dir)
	}
	w.readFiles(p, state)
}

// readFiles checks all files in a folder. The snapshot may contain what the config in
// etcd contains, readable for root alone.
func (w *world) readFiles(p planted, dir string) {
	w.t.Helper()
	if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		secret := p
		if filepath.Base(path) == "snapshot" {
			if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(string(text), `"Backend"`) {
				w.t.Errorf("%s: %v, %v", path, info.Mode(), err)
			}
			secret = planted{}
			for _, where := range []string{"password of node", "the key file", "the embedded etcd's key file", "embedded", "misspelt variable"} {
				secret[where] = p[where]
			}
		}
		secret.absent(w.t, path, string(text))
		return nil
	}); err != nil {
		w.t.Error(err)
	}
}

// look requests every page of a host's daemon, and runs all commands.
func (w *world) look(h *clustertest.Host, p planted, store []string) {
	w.t.Helper()
	d := w.daemons[h]
	transport := &http.Transport{DialContext: within(h.NS.Path)}
	defer transport.CloseIdleConnections()
	b := &browser{w, &http.Client{Transport: transport, Timeout: patience}, "http://127.0.0.1:10256"}
	b.shows("/metrics", 200, "\ntulle_healthy 1\n")
	for _, path := range []string{
		"/", "/statusz", "/healthz", "/readyz", "/readyz?verbose", "/metrics", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2",
		"/debug/pprof/heap?debug=1", "/debug/pprof/symbol", "/debug/pprof/trace?seconds=0.1",
	} {
		_, text, err := b.get(path)
		if err != nil {
			w.t.Errorf("%s: %v", path, err)
		}
		p.absent(w.t, h.Name+" at "+path, text)
	}
	commands := []string{"leases", "cleanup --dry-run", "status --bad-flag"}
	for _, command := range []string{"status", "peers", "explain 10.5.70.1", "explain 10.5.71.1"} {
		for _, format := range []string{"text", "json", "yaml"} {
			commands = append(commands, command+" --output="+format)
		}
	}
	for _, command := range commands {
		out, _ := w.command(h, append(strings.Fields(command), store...)...)
		if out == "" {
			w.t.Errorf("tulled %s prints nothing", command)
		}
		p.absent(w.t, "tulled "+command+" on "+h.Name, out)
	}
	out, code := w.command(h, append([]string{"bugreport", "/run/report.tar.gz"}, store...)...)
	if code != 0 {
		w.t.Errorf("bugreport: %d: %s", code, out)
	}
	p.absent(w.t, "tulled bugreport", out)
	packed := filepath.Join(h.Dir, "run/report.tar.gz")
	for name, text := range archivetest.Texts(w.t, packed) {
		p.absent(w.t, name+" in the bug report of "+h.Name, text)
	}
	remove(w.t, packed)
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", d.PID))
	if err != nil {
		w.t.Error(err)
	}
	p.absent(w.t, "the process list of "+h.Name, string(list))
	p.absent(w.t, "the log of "+h.Name, d.Log())
}

// TestRefusalsShowNoSecret starts a daemon with settings that it must refuse.
func TestRefusalsShowNoSecret(t *testing.T) {
	t.Parallel()
	p := make(planted)
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(p.plant("file")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	password := "--etcd-password=" + p.plant("password")
	for _, args := range [][]string{
		{password, "--bad-flag"},
		{password, "--etcd-username=u", "--v=x"},
		{password, "--etcd-username=u", "--etcd-password-file=" + file},
		{password, "--etcd-username=u", "--etcd-keyfile=" + file, "--etcd-certfile=" + file, "--etcd-endpoints=https://127.0.0.1:1"},
		{password, "--etcd-username=u", "--etcd-cafile=" + file, "--etcd-endpoints=https://127.0.0.1:1"},
		{"--etcd-endpoints=http://root:" + p.plant("URL") + "@127.0.0.1:1"},
		{"--etcd-endpoints=root:" + p.plant("URL without a scheme") + "@127.0.0.1:1"},
		{"--etcd-embedded", "--etcd-listen=http://root:" + p.plant("listen") + "@127.0.0.1:1"},
		{"--etcd-username=root:" + p.plant("username")},
		{"--etcd-password", "two", p.plant("words")},
		{"--etcd-pasword=" + p.plant("misspelt")},
		{"check-config", file},
		{"check-config", file, password},
		{"leases", password, "--etcd-username=u", "--etcd-endpoints=http://127.0.0.1:1"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		command := exec.CommandContext(ctx, tulled.Argv[0], args...)
		command.Env = append(os.Environ(), "TULLED_STATE_DIR="+t.TempDir()) // some settings fail only after the start
		out, err := command.CombinedOutput()
		cancel()
		if err == nil || len(out) == 0 {
			t.Errorf("%q exits with %v and prints %q", args, err, out)
		}
		p.absent(t, fmt.Sprintf("tulled %q", args), string(out))
	}
}
