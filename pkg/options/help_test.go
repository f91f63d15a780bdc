package options

import (
	goflag "flag"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tulle-net/tulle/pkg/flags"
)

var update = goflag.Bool("update", false, "rewrite testdata")

func help(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	if err := Help(&b, ""); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestHelp compares the help with a golden file.
func TestHelp(t *testing.T) {
	const golden = "testdata/help.txt"
	got := help(t)
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got:\n%s\nwant (go test -update writes it):\n%s", got, want)
	}
}

func TestHelpFits(t *testing.T) {
	lines := strings.Split(help(t), "\n")
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, f := range tulled.Flags {
		n := 0
		for _, line := range lines {
			if strings.HasPrefix(line, "  "+f.Written()+" ") {
				n++
			}
		}
		if n != 1 {
			t.Errorf("--%s has %d lines", f.Name, n)
		}
	}
	// A group is in one piece.
	groups := slices.Compact(slices.Collect(func(yield func(string) bool) {
		for _, f := range tulled.Flags {
			if !yield(f.Group) {
				return
			}
		}
	}))
	slices.Sort(groups)
	if len(slices.Compact(slices.Clone(groups))) != len(groups) {
		t.Errorf("a group comes twice: %q", groups)
	}
}

// TestHelpExamples checks that the examples in the help are valid.
func TestHelpExamples(t *testing.T) {
	_, examples, _ := strings.Cut(help(t), "Examples:\n")
	n := 0
	for line := range strings.Lines(examples) {
		words := strings.Fields(line)
		if o := parse(t, words[1:], nil); len(o.Warnings) > 0 {
			t.Errorf("%s: %q", line, o.Warnings)
		}
		n++
	}
	if n != 2 {
		t.Errorf("%d examples", n)
	}
}

// TestEveryCommandHasHelp requests help in both ways.
func TestEveryCommandHasHelp(t *testing.T) {
	for _, c := range tulled.Commands[1:] {
		for _, args := range [][]string{{"help", c.Name}, {c.Name, "--help"}} {
			o := parse(t, args, []string{"TULLED_DRY_RUN=true"})
			var b strings.Builder
			if err := Help(&b, o.Topic); err != nil || o.Command != ShowHelp {
				t.Errorf("%q is command %d, %v", args, o.Command, err)
			}
			if !strings.HasPrefix(b.String(), "tulled "+c.Name+": "+c.About+".\n") {
				t.Errorf("%q writes\n%s", args, b.String())
			}
			for line := range strings.Lines(b.String()) {
				if n := utf8.RuneCountInString(line); n > 101 {
					t.Errorf("%d columns: %s", n, line)
				}
			}
		}
		// The flags and groups that a help lists exist.
		for _, use := range c.Uses {
			if !slices.ContainsFunc(tulled.Flags, func(f flags.Flag) bool { return len(f.Only) == 0 && (f.Name == use || f.Group == use) }) {
				t.Errorf("%s uses %s, which is no flag of the daemon", c.Name, use)
			}
		}
	}
	for _, f := range tulled.Flags {
		for _, name := range f.Only {
			if !slices.ContainsFunc(tulled.Commands, func(c flags.Command) bool { return c.Name == name }) {
				t.Errorf("%s belongs to %s, which is no command", f.Written(), name)
			}
		}
	}
}
