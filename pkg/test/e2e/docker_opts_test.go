package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// shells are the shells that hosts use as sh.
var shells = [][]string{{"dash"}, {"bash", "--posix"}, {"busybox", "sh"}}

const (
	ipv4Env = "FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.34.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=false\n"
	dualEnv = "FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.34.1/24\nFLANNEL_IPV6_NETWORK=fd00:5::/48\nFLANNEL_IPV6_SUBNET=fd00:5:0:22::1/64\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"
	ipv6Env = "FLANNEL_IPV6_NETWORK=fd00:5::/48\nFLANNEL_IPV6_SUBNET=fd00:5:0:22::1/64\nFLANNEL_MTU=1430\nFLANNEL_IPMASQ=true\n"
)

// options runs the script with a shell in a namespace. It returns what the script
// wrote, or its error output.
func options(t *testing.T, ns *kerneltest.NS, shell []string, env string, environ []string, flags ...string) (text, said string, code int) {
	t.Helper()
	dir := t.TempDir()
	from, to := filepath.Join(dir, "subnet.env"), filepath.Join(dir, "docker_opts.env")
	if env != "" {
		if err := os.WriteFile(from, []byte(env), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := ns.Command(append(append(append([]string{}, shell...), optionsScript, "-f", from, "-d", to), flags...)...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "CANARY=" + filepath.Join(dir, "canary")}, environ...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(to)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "canary")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a command in the env file was run: %v", err)
	}
	return string(written), out.String(), code
}

// TestDockerOptions compares the output with that of flannel's script, byte for byte,
// except for -6, which flannel's lacks.
func TestDockerOptions(t *testing.T) {
	t.Parallel()
	ns := kerneltest.NewNS(t, "options")
	const (
		each = "DOCKER_OPT_BIP=\"--bip=10.5.34.1/24\"\nDOCKER_OPT_IPMASQ=\"--ip-masq=true\"\nDOCKER_OPT_MTU=\"--mtu=1450\"\n"
		all  = " --bip=10.5.34.1/24 --ip-masq=true --mtu=1450\"\n"
	)
	for _, c := range []struct {
		name, env, environ, flags string
		want                      string
	}{
		{"both forms", ipv4Env, "", "", each + `DOCKER_OPTS="` + all},
		{"both by name", ipv4Env, "", "-i -c", each + `DOCKER_OPTS="` + all},
		{"each", ipv4Env, "", "-i", each},
		{"combined", ipv4Env, "", "-c", `DOCKER_OPTS="` + all},
		{"another key", ipv4Env, "", "-c -k DOCKER_NETWORK_OPTIONS", `DOCKER_NETWORK_OPTIONS="` + all},
		{"after one's own", ipv4Env, "DOCKER_OPTS=--debug -l=warn", "-c", `DOCKER_OPTS="--debug -l=warn ` + all},
		{"after one's own of that key", ipv4Env, "X=--debug", "-ck X", `X="--debug ` + all},
		{"single ones of one's own", ipv4Env, "DOCKER_OPT_A=--a", "-ic", "DOCKER_OPT_A=\"--a\"\n" + each + `DOCKER_OPTS=" --a` + all},
		{"no masquerading", ipv4Env, "", "-m", "DOCKER_OPT_BIP=\"--bip=10.5.34.1/24\"\nDOCKER_OPT_MTU=\"--mtu=1450\"\nDOCKER_OPTS=\" --bip=10.5.34.1/24 --mtu=1450\"\n"},
		{"the network masquerades", dualEnv, "", "-c", "DOCKER_OPTS=\" --bip=10.5.34.1/24 --ip-masq=false --mtu=1450\"\n"},
		{"IPv6 alone", ipv6Env, "", "-c", "DOCKER_OPTS=\" --ip-masq=false --mtu=1430\"\n"},
		{"no file", "", "", "", "DOCKER_OPTS=\"\"\n"},
		{"no file, each", "", "", "-i", ""},
		{"of the environment", "", "FLANNEL_SUBNET=10.5.34.1/24", "-c", "DOCKER_OPTS=\" --bip=10.5.34.1/24\"\n"},
		{"the file before the environment", "FLANNEL_MTU=1400\n", "FLANNEL_MTU=9000", "-c", "DOCKER_OPTS=\" --mtu=1400\"\n"},
		{"by hand", "# mine\n\n export FLANNEL_SUBNET=\"10.5.34.129/25\" # x\nFLANNEL_MTU=9000\n\tFLANNEL_MTU='1450'", "", "-i", "DOCKER_OPT_BIP=\"--bip=10.5.34.129/25\"\nDOCKER_OPT_MTU=\"--mtu=1450\"\n"},
		{"words that are no flags", ipv4Env, "", "-i more", each},
	} {
		t.Run(c.name, func(t *testing.T) { wantOptions(t, ns, c.env, c.environ, c.flags, c.want) })
	}
	for _, c := range []struct{ name, env, flags, want string }{
		{"IPv6 asked for", dualEnv, "-6", "DOCKER_OPT_BIP=\"--bip=10.5.34.1/24\"\nDOCKER_OPT_FIXED_CIDR_V6=\"--fixed-cidr-v6=fd00:5:0:22::/64\"\nDOCKER_OPT_IPMASQ=\"--ip-masq=false\"\nDOCKER_OPT_IPV6=\"--ipv6\"\nDOCKER_OPT_MTU=\"--mtu=1450\"\n" +
			"DOCKER_OPTS=\" --bip=10.5.34.1/24 --fixed-cidr-v6=fd00:5:0:22::/64 --ip-masq=false --ipv6 --mtu=1450\"\n"},
		{"IPv6 asked for, and none", ipv4Env, "-6 -i", each},
		{"IPv6 of few", "FLANNEL_IPV6_SUBNET=fd00::5:8001/113\n", "-6 -c", "DOCKER_OPTS=\" --fixed-cidr-v6=fd00::5:8000/113 --ipv6\"\n"},
		{"IPv6 in full", "FLANNEL_IPV6_SUBNET=fd00:1:2:3:4:5:6:1/112\n", "-6 -c", "DOCKER_OPTS=\" --fixed-cidr-v6=fd00:1:2:3:4:5:6:0/112 --ipv6\"\n"},
		{"IPv6 without the first address", "FLANNEL_IPV6_SUBNET=fd00:1::/64\n", "-6 -c", "DOCKER_OPTS=\" --fixed-cidr-v6=fd00:1::/64 --ipv6\"\n"},
		// This file has the line ends of Windows.
		{"CRLF", strings.ReplaceAll(ipv4Env, "\n", "\r\n"), "-i", each},
		{"what is not Docker's", "PATH=/nowhere\nDOCKER_OPTS=--debug\nLD_PRELOAD=x\nFLANNEL_COLOUR=blue $(touch $CANARY)\n" + ipv4Env, "", each + `DOCKER_OPTS="` + all},
	} {
		t.Run(c.name, func(t *testing.T) { wantOptions(t, ns, c.env, "", c.flags, c.want) })
	}
}

func wantOptions(t *testing.T, ns *kerneltest.NS, env, environ, flags, want string) {
	t.Helper()
	for _, shell := range shells {
		var set []string
		if environ != "" {
			set = []string{environ}
		}
		if text, said, code := options(t, ns, shell, env, set, strings.Fields(flags)...); text != want || code != 0 || (said != "") != (env == "" && environ == "") {
			t.Errorf("%s: exits with code %d and prints %q, and wrote\n%s\nwant\n%s", shell, code, said, text, want)
		}
	}
}

// TestDockerOptionsRefuse checks that the script rejects an invalid file with the
// reason. It runs nothing of the file, and keeps what it wrote before.
func TestDockerOptionsRefuse(t *testing.T) {
	t.Parallel()
	ns := kerneltest.NewNS(t, "options")
	for _, c := range []struct{ env, flags, says string }{
		{"touch $CANARY\n", "", "line 1 is not NAME=VALUE"},
		{ipv4Env + "; touch $CANARY\n", "", "line 5 is not"},
		{"FLANNEL_MTU=1450; touch $CANARY\n", "", "line 1 is not"},
		{"FLANNEL_MTU=1450 touch $CANARY\n", "", "line 1 is not"},
		{"FLANNEL_MTU=\"1450\"$(touch $CANARY)\n", "", "line 1 is not"},
		{"FLANNEL_MTU=$(touch${IFS}$CANARY)\n", "", "FLANNEL_MTU is not a number"},
		{"FLANNEL_MTU=`touch $CANARY`\n", "", "line 1 is not"},
		{"FLANNEL_MTU=\"`touch $CANARY`\"\n", "", "FLANNEL_MTU is not a number"},
		{"FLANNEL_MTU=a[$(touch${IFS}$CANARY)]\n", "", "FLANNEL_MTU is not a number"},
		{"FLANNEL_MTU=\"1450\n", "", "FLANNEL_MTU is not a number"},
		{"FLANNEL_MTU=65536\n", "", "FLANNEL_MTU is not a number"},
		{"FLANNEL_MTU=-1\n", "", "FLANNEL_MTU is not a number"},
		{"FLANNEL_MTU=0x10\n", "", "FLANNEL_MTU is not a number"},
		{"FLANNEL_SUBNET=10.5.34.1\n", "", "FLANNEL_SUBNET is not an IPv4 address"},
		{"FLANNEL_SUBNET=10.5.34.1/33\n", "", "FLANNEL_SUBNET is no"},
		{"FLANNEL_SUBNET=10.5.34.256/24\n", "", "FLANNEL_SUBNET is no"},
		{"FLANNEL_SUBNET=10.5.34/24\n", "", "FLANNEL_SUBNET is no"},
		{"FLANNEL_SUBNET=10.5.34.1.1/24\n", "", "FLANNEL_SUBNET is no"},
		{"FLANNEL_SUBNET=10.5..1/24\n", "", "FLANNEL_SUBNET is no"},
		{"FLANNEL_SUBNET=10.5.34.1/24/24\n", "", "FLANNEL_SUBNET is no"},
		{"FLANNEL_SUBNET='10.5.34.1/24 --insecure-registry=x'\n", "", "FLANNEL_SUBNET is no"},
		{"FLANNEL_SUBNET=fd00::1/64\n", "", "FLANNEL_SUBNET is no"},
		{"FLANNEL_IPMASQ=maybe\n", "", "FLANNEL_IPMASQ is neither"},
		{"FLANNEL_IPMASQ='true\" X=\"'\n", "", "FLANNEL_IPMASQ is neither"},
		{"FLANNEL_IPV6_SUBNET=$(touch${IFS}$CANARY)\n", "-6", "FLANNEL_IPV6_SUBNET is not an IPv6 address"},
		{"FLANNEL_IPV6_SUBNET=fd00::1::1/64\n", "-6", "FLANNEL_IPV6_SUBNET is no"},
		{"FLANNEL_IPV6_SUBNET=fd00::12345/64\n", "-6", "FLANNEL_IPV6_SUBNET is no"},
		{"FLANNEL_IPV6_SUBNET=fd00::1/129\n", "-6", "FLANNEL_IPV6_SUBNET is no"},
		{"FLANNEL_IPV6_SUBNET=10.5.34.1/24\n", "-6", "FLANNEL_IPV6_SUBNET is no"},
		{"FLANNEL_SUBNET=\x00\xff\n", "", "FLANNEL_SUBNET is no"},
		{strings.Repeat("#\n", 1<<16), "", "too large"},
		{ipv4Env, "-f /dev/null", "/dev/null is not a regular file"},
		{ipv4Env, "-d /nowhere/x", "failed to write /nowhere/x"},
		{ipv4Env, "-k X;touch${IFS}$CANARY", "not a variable name"},
		{ipv4Env, "-k 1", "not a variable name"},
		{ipv4Env, "-h", "Writes Docker's options"},
		{ipv4Env, "-z", "Writes Docker's options"},
		{ipv4Env, "-f", "Writes Docker's options"},
	} {
		for _, shell := range shells {
			if text, said, code := options(t, ns, shell, c.env, nil, strings.Fields(c.flags)...); code != 1 || text != "" || !strings.Contains(said, c.says) {
				t.Errorf("%s, %.80q %s: exits with code %d, wrote %q, and prints\n%s", shell, c.env, c.flags, code, text, said)
			}
		}
	}
}

// TestDockerOptionsRoute checks that the script warns of a route that sends packets to
// the host's own subnet elsewhere. It does so after it wrote the file, as flannel's
// script does.
func TestDockerOptionsRoute(t *testing.T) {
	t.Parallel()
	ns := kerneltest.NewNS(t, "options")
	ns.IP(t, "link add eth0 type veth peer name peer")
	ns.IP(t, "addr add 198.18.0.1/24 dev eth0")
	ns.IP(t, "link set eth0 up")
	for route, code := range map[string]int{"10.5.34.0/24 via 198.18.0.2": 1, "10.5.0.0/16 via 198.18.0.2": 0, "110.5.34.0/24 via 198.18.0.2": 0, "10.5.34.0/24 dev eth0": 0} {
		ns.IP(t, "route add "+route)
		for _, shell := range shells {
			text, said, got := options(t, ns, shell, ipv4Env, nil)
			if got != code || !strings.Contains(text, "--bip=10.5.34.1/24") || strings.Contains(said, "Your routing table already contains the subnet: 10.5.34.0/24 via") != (code == 1) {
				t.Errorf("%s with the route %s: exits with code %d, wrote %q, and prints\n%s", shell, route, got, text, said)
			}
		}
		ns.IP(t, "route del "+route)
	}
}
