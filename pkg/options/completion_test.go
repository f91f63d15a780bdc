package options

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/flags"
)

// backends are like the names in main's table.
var backends = []string{"alloc", "host-gw", "ipip", "vxlan"}

// tulled is the program whose table the tests read.
var tulled = program(new(Options), backends)

func completion(t *testing.T, shell string) string {
	t.Helper()
	var b strings.Builder
	if err := Completion(&b, shell, backends); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestCompletion compares the completion of each shell with a golden file.
func TestCompletion(t *testing.T) {
	for _, shell := range flags.Shells() {
		golden(t, "testdata/completion."+shell, completion(t, shell))
	}
	if err := Completion(&strings.Builder{}, "tcsh", backends); err == nil || !strings.Contains(err.Error(), "bash, zsh, fish") {
		t.Errorf("for a shell that there are none for: %v", err)
	}
}

// TestZshOffersFlagsWithTheirCommands: a flag that belongs to commands is offered with
// those, and every other flag always.
func TestZshOffersFlagsWithTheirCommands(t *testing.T) {
	script := completion(t, "zsh")
	within := func(from, to string) string {
		_, rest, found := strings.Cut(script, from)
		text, _, ended := strings.Cut(rest, to)
		if !found || !ended {
			return ""
		}
		return text
	}
	offers := func(text string, f flags.Flag) bool { return strings.Contains(text, "'"+f.Written()+"=") }
	always := within("local -a flags=(\n", "\n\t)")
	for _, f := range tulled.Flags {
		if !f.Many && offers(always, f) != (len(f.Only) == 0) {
			t.Errorf("%s is offered without a command, or missing there", f.Written())
		}
		for _, c := range tulled.Commands[1:] {
			if own := within("\t"+c.Name+")\n\t\tflags+=(\n", "\n\t\t)"); offers(own, f) != slices.Contains(f.Only, c.Name) {
				t.Errorf("%s is offered with %s, or missing there", f.Written(), c.Name)
			}
		}
	}
}

// TestParseTakesEveryCommand parses each command that the help lists.
func TestParseTakesEveryCommand(t *testing.T) {
	for _, c := range tulled.Commands[1:] {
		words := []string{c.Name}
		switch {
		case len(c.Choices) > 0:
			words = append(words, c.Choices[0])
		case c.Value == "IP":
			words = append(words, "10.5.34.2")
		}
		if o, err := Parse(words, nil, backends); err != nil || o.Command == Run {
			t.Errorf("%q is command %d, %v", words, o.Command, err)
		}
	}
}

// TestChoices checks that Parse accepts what the completion offers.
func TestChoices(t *testing.T) {
	for _, f := range tulled.Flags {
		for _, choice := range f.Choices {
			if err := f.Set(choice); err != nil {
				t.Errorf("%s: %v", f.Written(), err)
			}
		}
	}
}

// TestBash calls the completion as bash does when a person presses tab.
func TestBash(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"net.json", "new file", "certs/ca.pem"} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	commands := []string{}
	for _, c := range tulled.Commands[1:] {
		commands = append(commands, c.Name)
	}
	var all []string
	for _, f := range tulled.Flags {
		if len(f.Only) == 0 {
			all = append(all, f.Written())
		}
	}
	whole := " \t\n\"'><;|&(:" // readline's own, without the equals sign
	for _, c := range []struct {
		line, breaks string
		want         []string
	}{
		{line: "tulled ", want: commands},
		{line: "tulled --ip-masq ", want: commands},
		{line: "tulled --iface eth0 -v 2 ", want: commands},
		{line: "tulled --etcd-endpoints=http://192.0.2.1:2379 ", want: commands},
		{line: "tulled che", want: []string{"check-config"}},
		{line: "tulled --filter none st", want: []string{"status"}},
		{line: "tulled -", want: all},
		{line: "tulled cleanup --d", want: []string{"--dry-run"}},
		{line: "tulled check-config --st", want: []string{"--state-dir", "--status-socket", "--strict"}},
		{line: "tulled help st", want: []string{"status"}},
		{line: "tulled status --output ", want: []string{"text", "json", "yaml"}},
		{line: "tulled status --output=", want: []string{"text", "json", "yaml"}},
		{line: "tulled status -output=j", want: []string{"json"}},
		{line: "tulled --filter=nf", want: []string{"nftables"}},
		{line: "tulled --filter=nf", breaks: whole, want: []string{"--filter=nftables"}},
		{line: "tulled --filter nf", want: []string{"nftables"}},
		{line: "tulled --backend ", want: []string{"alloc", "host-gw", "ipip", "vxlan"}},
		{line: "tulled --ip-masq=ip", want: []string{"ipv4", "ipv6"}},
		{line: "tulled --iptables-forward-rules=f", want: []string{"false"}},
		{line: "tulled --subnet-lease-t", want: []string{"--subnet-lease-ttl"}},
		{line: "tulled --subnet-lease-ttl ", want: nil},
		{line: "tulled --etcd-cafile ", want: []string{"certs", "net.json", "new file"}},
		{line: "tulled --etcd-cafile=certs/", want: []string{"certs/ca.pem"}},
		{line: `tulled --etcd-cafile new\ f`, want: []string{"new file"}},
		{line: "tulled --state-dir ", want: []string{"certs"}},
		{line: "tulled check-config n", want: []string{"net.json", "new file"}},
		{line: "tulled explain ", want: nil},
		{line: "tulled status ", want: nil},
		{line: "tulled --iface l", want: []string{"lo"}},
		{line: "tulled --no-such-flag=", want: nil},
	} {
		cmd := exec.Command("bash", "--norc", "-c", `eval "$1"; COMP_LINE=$2 COMP_POINT=${#2}
[ -z "$3" ] || COMP_WORDBREAKS=$3
complete -p tulled >/dev/null && _tulled && [ ${#COMPREPLY[@]} = 0 ] || printf '%s\n' "${COMPREPLY[@]}"`,
			"bash", completion(t, "bash"), c.line, c.breaks)
		cmd.Dir = folder
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v: %s", c.line, err, out)
		}
		got := strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.line, got, c.want)
		}
	}
}
