//go:build vm && flannel

package wireguardtest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// etcd is where the daemons find their store.
const etcd = "http://198.18.0.250:2379"

// slow is how long what takes a moment may take in an emulated machine.
const slow = 90 * time.Second

// lab is an etcd and three hosts on one link.
type lab struct {
	t     *testing.T
	dir   string
	store http.Client
	host  []*host
}

// host is one of the hosts. Its daemon may be tulled or flanneld.
type host struct {
	*lab
	number int
	dir    string
	ns     *kerneltest.NS
	pod    string // the first address of its subnet, which a bridge has
}

func newLab(t *testing.T, config string) *lab {
	l := &lab{t: t, dir: t.TempDir()}
	link := kerneltest.NewNS(t, "switch")
	link.IP(t, "link add br0 type bridge")
	link.IP(t, "link set br0 up")
	link.IP(t, "addr add 198.18.0.250/24 dev br0")
	for i := 1; i <= 3; i++ {
		h := &host{lab: l, number: i, dir: filepath.Join(l.dir, strconv.Itoa(i)), ns: kerneltest.NewNS(t, fmt.Sprintf("host%d", i))}
		port := fmt.Sprintf("p%d", i)
		kerneltest.Join(t, link, port, h.ns, "eth0")
		link.IP(t, "link set "+port+" master br0")
		h.ns.IP(t, fmt.Sprintf("addr add 198.18.0.%d/24 dev eth0", i))
		h.ns.IP(t, "route add default via 198.18.0.254")
		h.ns.IP(t, "link set lo up")
		h.ns.IP(t, "link add cni0 type bridge")
		h.ns.IP(t, "link set cni0 up")
		if err := os.Mkdir(h.dir, 0o755); err != nil {
			t.Fatal(err)
		}
		l.host = append(l.host, h)
	}
	peer := "http://198.18.0.250:2380"
	l.run(link, "etcd", nil, "etcd", "--data-dir", filepath.Join(l.dir, "etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	l.store = http.Client{Transport: &http.Transport{DialContext: kerneltest.Dialer(link.Name)}}
	l.put("config", config)
	return l
}

// network is where the network is in etcd.
const network = "/coreos.com/network/"

// put writes a key of the network to etcd.
func (l *lab) put(key, value string) { l.write(network+key, value) }

// write writes a key to etcd.
func (l *lab) write(key, value string) {
	l.t.Helper()
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	body := `{"key":"` + b64(key) + `","value":"` + b64(value) + `"}`
	kerneltest.Eventually(l.t, slow, func() error {
		r, err := l.store.Post(etcd+"/v3/kv/put", "application/json", strings.NewReader(body))
		if err != nil {
			return err
		}
		_ = r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return errors.New(r.Status)
		}
		return nil
	})
}

// run starts a program. The log of a failed test has the end of its output.
func (l *lab) run(ns *kerneltest.NS, name string, env []string, args ...string) (end func(os.Signal)) {
	l.t.Helper()
	log := filepath.Join(l.dir, name+".log")
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		l.t.Fatal(err)
	}
	cmd := ns.Command(args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	ended := false
	end = func(s os.Signal) {
		if !ended {
			ended = true
			_ = cmd.Process.Signal(s)
			_ = cmd.Wait()
			_ = out.Close()
		}
	}
	l.t.Cleanup(func() {
		end(syscall.SIGTERM)
		if text, err := os.ReadFile(log); err == nil && l.t.Failed() {
			l.t.Logf("%s said\n%s", name, text[max(0, len(text)-4000):])
		}
	})
	return end
}

// tulled starts tulled on a host, with more flags.
func (h *host) tulled(more ...string) (end func(os.Signal)) {
	id := fmt.Sprintf("node-%d", h.number)
	return h.run(h.ns, fmt.Sprintf("tulled%d", h.number), []string{h.keyFile()}, append([]string{"tulled", "--etcd-endpoints=" + etcd, "--iface=eth0",
		"--state-dir=" + h.dir + "/state", "--subnet-file=" + h.env(), "--cni-conf-file=" + h.dir + "/cni.conflist",
		"--status-socket=" + h.dir + "/socket", "--node-id=" + id, "--node-name=" + id, "--healthz-port=0", "--ip-masq=false"}, more...)...)
}

// flanneld starts flannel's daemon on a host.
func (h *host) flanneld() (end func(os.Signal)) {
	return h.run(h.ns, fmt.Sprintf("flanneld%d", h.number), []string{h.keyFile()}, "flanneld", "--etcd-endpoints="+etcd, "--iface=eth0",
		"--subnet-file="+h.env(), "--iptables-forward-rules=false")
}

func (h *host) keyFile() string { return "WIREGUARD_KEY_FILE=" + h.dir + "/flannel-key" }
func (h *host) env() string     { return filepath.Join(h.dir, "subnet.env") }

// say returns the output of one of tulled's commands.
func (h *host) say(words ...string) string {
	out, err := exec.Command("tulled", append(words, "--status-socket="+h.dir+"/socket")...).CombinedOutput()
	return fmt.Sprintf("%s(%v)", out, err)
}

var subnetLine = regexp.MustCompile(`FLANNEL_SUBNET=(\S+)/24`)

// addressed waits until the host has a subnet, and gives its bridge the first address.
func (h *host) addressed() {
	h.t.Helper()
	kerneltest.Eventually(h.t, slow, func() error {
		text, err := os.ReadFile(h.env())
		if err != nil {
			return err
		}
		m := subnetLine.FindSubmatch(text)
		if m == nil {
			return fmt.Errorf("the env file has %q", text)
		}
		h.pod = string(m[1])
		return nil
	})
	if !strings.Contains(h.ns.IP(h.t, "addr show dev cni0"), h.pod+"/") {
		h.ns.IP(h.t, "addr add "+h.pod+"/24 dev cni0")
	}
}

// ready waits until tulled on a host says so.
func (h *host) ready() {
	h.t.Helper()
	kerneltest.Eventually(h.t, slow, func() error {
		if text := h.say("status"); !strings.Contains(text, "tulled:") || strings.Contains(text, "NOT READY") {
			return fmt.Errorf("node %d: %s", h.number, text)
		}
		return nil
	})
}

// keeps fails the test unless all pings of a flood but those on their way were answered.
func (l *lab) keeps(what string, count func() (sent, lost int)) {
	l.t.Helper()
	sent, lost := count()
	l.t.Logf("%s lost %d of %d pings", what, lost, sent)
	if lost > 0 || sent < 100 {
		l.t.Errorf("%s lost %d of %d pings", what, lost, sent)
	}
}

// reach waits until every host has reached every other.
func (l *lab) reach(when string) {
	l.t.Helper()
	for _, a := range l.host {
		for _, b := range l.host {
			if a == b {
				continue
			}
			kerneltest.Eventually(l.t, slow, func() error {
				if out, err := a.ns.Command("ping", "-n", "-c1", "-W2", "-I", a.pod, b.pod).CombinedOutput(); err != nil {
					return fmt.Errorf("%s: %d does not reach %d: %s", when, a.number, b.number, out)
				}
				return nil
			})
		}
	}
}

// most is how many pings may be on their way when ping ends, which sends a hundred a second.
const most = 50

// flood sends pings to another host until count is called, which returns what became of
// them.
func (h *host) flood(to *host) (count func() (sent, lost int)) {
	h.t.Helper()
	cmd := h.ns.Command("ping", "-n", "-i", "0.01", "-I", h.pod, to.pod)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return func() (sent, lost int) {
		h.t.Helper()
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // it fails if a ping was lost, which the counts show
		m := regexp.MustCompile(`(\d+) packets transmitted`).FindStringSubmatch(out.String())
		answers := regexp.MustCompile(`icmp_seq=(\d+) ttl=`).FindAllStringSubmatch(out.String(), -1)
		if m == nil || len(answers) == 0 {
			h.t.Fatalf("ping said %q", out.String())
		}
		sent, _ = strconv.Atoi(m[1])
		answered := make(map[int]bool)
		last := 0 // the end of ping cuts off answers to later ones
		for _, answer := range answers {
			seq, _ := strconv.Atoi(answer[1])
			answered[seq], last = true, max(last, seq)
		}
		h.t.Logf("%d of %d pings were on their way at the end", sent-last, sent)
		if sent-last > most {
			h.t.Error("too many to be on their way")
		}
		return sent, last - len(answered)
	}
}
