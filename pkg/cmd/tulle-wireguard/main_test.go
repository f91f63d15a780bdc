package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/companion"
	"github.com/tulle-net/tulle/pkg/kernel"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/wireguardprocess"
)

// asProgram is the variable that makes this test's binary the program.
const asProgram = "TEST_RUNS_TULLE_WIREGUARD"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// host has a TUN device for the program, and a folder /run of its own.
type host struct {
	t   *testing.T
	ns  *kerneltest.NS
	run string
}

const tunName = "tulle-wg"

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, ns: kerneltest.NewNS(t, "host"), run: t.TempDir()}
	h.makeDevice()
	return h
}

func (h *host) makeDevice() {
	h.t.Helper()
	k, err := kernel.New(h.ns.Path)
	if err != nil {
		h.t.Fatal(err)
	}
	defer k.Close()
	link := netstate.Link{Name: tunName, Kind: netstate.TunnelWireGuardTUN, MTU: 1420, Group: netstate.Mark, Up: true}
	if err := k.Apply(h.t.Context(), netstate.Plan{{Verb: netstate.Create, Object: link}}); err != nil {
		h.t.Fatal(err)
	}
}

// execute runs the program with arguments. It ends with the test.
func (h *host) execute(variables []string, args ...string) *kerneltest.Process {
	h.t.Helper()
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	view := []string{"sh", "-c", `mount --bind "$1" /run && shift && exec "$@"`, "sh", h.run, self}
	p := kerneltest.Launch(h.t, h.ns.Name, append(variables, asProgram+"=1", "GORACE=atexit_sleep_ms=0"), append(view, args...)...)
	h.t.Cleanup(func() { p.End(syscall.SIGKILL) })
	return p
}

func newSettings(t *testing.T) wireguardprocess.Settings {
	return wireguardprocess.Settings{Dir: filepath.Join(t.TempDir(), "wg"), Interface: tunName}
}

// launch runs a program with settings until it is ready.
func (h *host) launch(s wireguardprocess.Settings) *kerneltest.Process {
	h.t.Helper()
	p := h.execute(nil, s.Spec("").Arguments...)
	kerneltest.Eventually(h.t, time.Minute, func() error {
		c, now, err := companion.Dial(h.t.Context(), s.Dir)
		if err != nil {
			return fmt.Errorf("%w; it wrote %s", err, p.Said())
		}
		defer c.Close()
		if now.State != companion.Running || now.Settings != s.Spec("").Settings {
			return fmt.Errorf("%+v", now)
		}
		return nil
	})
	return p
}

// wantEnd waits for the end of a process, which has to write something.
func wantEnd(t *testing.T, p *kerneltest.Process, code int, said string) {
	t.Helper()
	kerneltest.Eventually(t, time.Minute, func() error {
		if !p.Over() {
			return errors.New("it has not ended")
		}
		return nil
	})
	if state := p.End(0); state.ExitCode() != code || !strings.Contains(p.Said(), said) {
		t.Errorf("%v, and it wrote %s", state, p.Said())
	}
}

// ask sends a request to a socket, and returns the answer.
func ask(t *testing.T, socket, request string) string {
	t.Helper()
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	return answer(c)
}

// answer reads the answer to a request, as far as it comes.
func answer(c io.Reader) string {
	var all strings.Builder
	for b := make([]byte, 4096); !strings.HasSuffix(all.String(), "\n\n"); {
		n, err := c.Read(b)
		all.Write(b[:n])
		if err != nil {
			break
		}
	}
	return all.String()
}

const private = "e84b5a6d2717c1003a13b431570353dbaca9146cf150c5f8575680feba52027a"

// TestConfiguredBySockets uses the daemon's socket and that of wg.
func TestConfiguredBySockets(t *testing.T) {
	h, s := newHost(t), newSettings(t)
	p := h.launch(s)
	tools := filepath.Join(h.run, "wireguard", tunName+".sock")
	if got := ask(t, s.Socket(), "set=1\nprivate_key="+private+"\nlisten_port=51820\n\n"); got != "errno=0\n\n" {
		t.Errorf("the answer is %q", got)
	}
	if got := ask(t, tools, "get=1\n\n"); !strings.HasPrefix(got, "private_key="+private+"\nlisten_port=51820\n") {
		t.Errorf("wg reads %q", got)
	}
	// What is invalid may quote a key, and the log must not.
	ask(t, s.Socket(), "private_key="+private+"\n")
	ask(t, s.Socket(), "set=1\nprivate_key "+private+"\n\n")
	kerneltest.Eventually(t, time.Minute, func() error {
		if !strings.Contains(p.Said(), "(hidden)") {
			return fmt.Errorf("it wrote %s", p.Said())
		}
		return nil
	})
	if strings.Contains(p.Said(), private) {
		t.Errorf("the log has the private key: %s", p.Said())
	}
}

// Whatever its umask was, only its own user reaches its sockets.
func TestNothingIsForOthers(t *testing.T) {
	h, s := newHost(t), newSettings(t)
	old := syscall.Umask(0)
	h.launch(s)
	syscall.Umask(old)
	for _, path := range []string{s.Dir, s.Socket(), filepath.Join(s.Dir, "control"), filepath.Join(h.run, "wireguard", tunName+".sock")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// TestEndsWithItsDevice deletes the device. Another process serves the next one, also
// after a crash that left the sockets behind.
func TestEndsWithItsDevice(t *testing.T) {
	h, s := newHost(t), newSettings(t)
	p := h.launch(s)
	h.ns.IP(t, "link delete "+tunName)
	c, _, err := companion.Dial(t.Context(), s.Dir) // the daemon that started it
	if err == nil {
		defer c.Close()
	}
	wantEnd(t, p, 1, "WireGuard ended unexpectedly")
	wantEnd(t, h.execute(nil, s.Spec("").Arguments...), 1, "find link tulle-wg")
	h.makeDevice()
	h.launch(s).End(syscall.SIGKILL)
	h.launch(s)
	ask(t, s.Socket(), "get=1\n\n")
}

// TestEndsWithoutItsDevice: another program takes the device, which exists on. No packet may come
// out of it there.
func TestEndsWithoutItsDevice(t *testing.T) {
	h, s := newHost(t), newSettings(t)
	elsewhere := kerneltest.NewNS(t, "elsewhere")
	for _, taken := range []string{"link set tulle-wg netns " + elsewhere.Name, "link set tulle-wg name foreign group 0"} {
		p := h.launch(s)
		h.ns.IP(t, "link set "+tunName+" mtu 1400") // which changes nothing
		ask(t, s.Socket(), "get=1\n\n")
		h.ns.IP(t, taken)
		wantEnd(t, p, 1, "Lost the TUN device")
		h.makeDevice()
	}
	h.launch(s)
	if out := elsewhere.IP(t, "link show "+tunName); !strings.Contains(out, "NO-CARRIER") && !strings.Contains(out, "DOWN") {
		t.Errorf("a program still serves %s", out)
	}
}

// TestOneProgramADevice starts a second one, on the same folder and on another.
func TestOneProgramADevice(t *testing.T) {
	h, s := newHost(t), newSettings(t)
	h.launch(s)
	wantEnd(t, h.execute(nil, s.Spec("").Arguments...), 1, "another tulle-wireguard uses "+s.Dir)
	other := newSettings(t)
	wantEnd(t, h.execute(nil, other.Spec("").Arguments...), 1, "another program moves its packets")
	h.ns.IP(t, "tuntap add mode tap name d0")
	other.Interface = "d0"
	wantEnd(t, h.execute(nil, other.Spec("").Arguments...), 1, "no TUN device with one queue")
	ask(t, s.Socket(), "get=1\n\n")
}

func TestStopCommand(t *testing.T) {
	h, s := newHost(t), newSettings(t)
	p := h.launch(s)
	wantEnd(t, h.execute(nil, "stop", "--data-dir="+s.Dir), 0, fmt.Sprintf("stopped tulle-wireguard, process %d\n", p.PID()))
	wantEnd(t, p, 0, "Stopping WireGuard")
	wantEnd(t, h.execute([]string{"TULLE_WIREGUARD_DATA_DIR=" + s.Dir}, "stop"), 0, "no tulle-wireguard runs on "+s.Dir)
	if out := h.ns.IP(t, "link show "+tunName); !strings.Contains(out, tunName) {
		t.Errorf("there is %s", out)
	}
}

func TestCommandLine(t *testing.T) {
	h := newHost(t)
	for args, want := range map[string]string{
		"version": "devel", "--help": "Usage:", "man": ".TH TULLE\\-WIREGUARD 8", "completion bash": "# bash completion for tulle-wireguard",
	} {
		wantEnd(t, h.execute(nil, strings.Fields(args)...), 0, want)
	}
	for args, want := range map[string]string{
		"stopp":                         `unknown command "stopp"; did you mean "stop"?`,
		"--data-dir=x":                  "not an absolute path",
		"--interface=../x":              "not the name of a device",
		"--interface=longer-than-15-is": "not the name of a device",
	} {
		wantEnd(t, h.execute(nil, strings.Fields(args)...), 1, want)
	}
}
