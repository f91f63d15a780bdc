package ini

import (
	"slices"
	"strings"
	"testing"
)

func TestEntriesOfAFile(t *testing.T) {
	got, err := Parse("\ufeff; a comment\r\n[Global]\nproject-id = my-project-1 # a comment\nnode-tags=a\nnode-tags = \"b ; c\"\nmultizone\n\n[Section \"Sub\"]\nx=y\\\\z\n")
	want := []Entry{
		{3, "global", "", "project-id", "my-project-1"}, {4, "global", "", "node-tags", "a"}, {5, "global", "", "node-tags", "b ; c"},
		{6, "global", "", "multizone", "true"}, {9, "section", "Sub", "x", `y\z`},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWhatIsNoINI(t *testing.T) {
	for text, part := range map[string]string{
		"a=b": "in no section", "[a\nb=c": "no section", "[a] x": "no section", "[a b]": "no section", "[1]": "no section",
		"[a]\nb=\"c": "not closed", "[a]\nb=\\x": "backslash", "[a]\nb=\\": "backslash", "[a]\n=c": "no name", "[a]\nb c=d": "no name",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), part) || !strings.HasPrefix(err.Error(), "line ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestValues(t *testing.T) {
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
