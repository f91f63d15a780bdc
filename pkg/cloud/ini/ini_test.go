package ini

import (
	"slices"
	"strings"
	"testing"
)

func TestParseReturnsEntriesInOrder(t *testing.T) {
	got, err := Parse("\ufeff; a comment\r\n[Global]\nproject-id = my-project-1 # a comment\nnode-tags=a\nnode-tags = \"b ; c\"\nmultizone\n\n[Section \"Sub\"]\nx=y\\\\z\n")
	want := []Entry{
		{3, "global", "", "project-id", "my-project-1"}, {4, "global", "", "node-tags", "a"}, {5, "global", "", "node-tags", "b ; c"},
		{6, "global", "", "multizone", "true"}, {9, "section", "Sub", "x", `y\z`},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestInvalidFilesAreRefused(t *testing.T) {
	for text, part := range map[string]string{
		"a=b": "before the first section", "[a\nb=c": "not a section", "[a] x": "not a section", "[a b]": "not a section", "[1]": "not a section",
		"[a]\nb=\"c": "not closed", "[a]\nb=\\x": "backslash", "[a]\nb=\\": "backslash", "[a]\n=c": "not the name", "[a]\nb c=d": "not the name",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), part) || !strings.HasPrefix(err.Error(), "line ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestQuotesEscapesAndComments(t *testing.T) {
	for text, want := range map[string]string{
		`a`: "a", `a b ; c`: "a b", `"a ; b" # c`: "a ; b", `"a" b`: "a b", ``: "", `"  "`: "  ", `a\\b\"c\n`: "a\\b\"c\n", `a "" `: "a ",
	} {
		if got, err := parseValue(text); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

// FuzzParse parses any text. Every entry has a section, a name and a line of the text.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"[Global]\na=b\n", "[A \"b\"]\nc", "[a]\nb=\"c\\n\"", "\x00", "[a]\nb=\"\""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := Parse(text)
		last := 0
		for _, e := range all {
			if err != nil || e.Section == "" || e.Section != strings.ToLower(e.Section) || !isName(e.Name) || e.Line <= last || e.Line > strings.Count(text, "\n")+1 {
				t.Errorf("%+v of %q", e, text)
			}
			last = e.Line
		}
	})
}
