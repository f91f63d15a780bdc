package options

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// golden compares text with a file.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s has another text (go test -update writes it); got:\n%s", path, got)
	}
}

func manPage(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	if err := ManPage(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestManPage(t *testing.T) { golden(t, "testdata/tulled.8", manPage(t)) }

// TestManPageFormat checks that the page has the usual sections of manual pages, in
// their order. Every line is one that all formatters know.
func TestManPageFormat(t *testing.T) {
	text := manPage(t)
	var sections []string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, ".SH "); ok {
			sections = append(sections, name)
		}
		if strings.HasPrefix(line, ".") && !regexp.MustCompile(`^\.(TH|SH|SS|TP|PP|B|BR|I|EX|EE|br)( .*)?$`).MatchString(line) {
			t.Errorf("not a request of man's: %s", line)
		}
		if line == "" || strings.HasPrefix(line, "'") || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("not a line for roff: %q", line)
		}
	}
	want := []string{"NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "OPTIONS", "ENVIRONMENT", "FILES", "EXIT STATUS", "EXAMPLES", "SEE ALSO"}
	if !slices.Equal(sections, want) {
		t.Errorf("got the sections %q, want %q", sections, want)
	}
	for _, f := range tulled.Flags {
		if n := len(regexp.MustCompile(`(?m)^\\fB`+regexp.QuoteMeta(strings.ReplaceAll(f.Written(), "-", `\-`))+`\\fR`).FindAllString(text, -1)); n != 1 {
			t.Errorf("%s is there %d times", f.Written(), n)
		}
	}
}
