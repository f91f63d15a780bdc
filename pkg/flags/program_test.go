package flags

import (
	"errors"
	"strings"
	"testing"
)

// small is a program with one prefix and a dash in its name.
func small(level *int, word *string) Program {
	return Program{
		Name: "a-program", About: "a-program does little.", Prefixes: []string{"A_PROGRAM_"}, Example: "log-level",
		Commands: []Command{
			{Value: "[flags]", About: "run"},
			{Name: "echo", Value: "[WORD]", About: "print a word", Set: To(word, func(s string) (string, error) { return "<" + s + ">", nil })},
		},
		Flags: []Flag{
			{Name: "loud", Group: "Flags", Default: "false", About: "shout", Only: []string{"echo"}, Set: func(string) error { return nil }},
			{Name: "log-level", Group: "Flags", Value: "LEVEL", Default: "1", About: "log level", Set: To(level, Whole(0, 9))},
			Help.In("Flags"),
		},
		Manual: Manual{Summary: "little", Also: []string{"true(1)"}},
	}
}

// TestFlagsVariablesAndWordsSetValues checks the values that a command line and an
// environment set, and the errors.
func TestFlagsVariablesAndWordsSetValues(t *testing.T) {
	for _, c := range []struct {
		args, environ string
		level         int
		word, fail    string
	}{
		{level: 1},
		{args: "-log-level 2", environ: "A_PROGRAM_LOG_LEVEL=3", level: 2},
		{environ: "A_PROGRAM_LOG_LEVEL=3", level: 3},
		{args: "echo --loud", level: 1, word: "<>"},
		{args: "--loud", fail: "--loud: belongs to a-program echo; add the command, as in a-program echo --loud"},
		{environ: "A_PROGRAM_LOUD=true", level: 1},
		{args: "x", fail: "unknown command in argument 1, not counting flags; quote"},
		{args: "echo", level: 1, word: "<>"},
		{args: "echo --log-level=4 x", level: 4, word: "<x>"},
		{args: "echo x true", fail: `unexpected argument "true"; join a boolean to its flag, as in --flag=false`},
		{args: "--help=0 echoo", fail: `unknown command "echoo"; did you mean "echo"?`},
		{args: "--log-levle=1", fail: "--log-levle: unknown flag; did you mean --log-level?"},
		{environ: "A_PROGRAM_LOGLEVEL=1", fail: "A_PROGRAM_LOGLEVEL: unknown variable; did you mean A_PROGRAM_LOG_LEVEL?"},
		{environ: "A_PROGRAM_X=1", fail: "A_PROGRAM_X: unknown variable; unset it, or see a-program --help"},
		{args: "--log-level=10", fail: `--log-level is "10": not a whole number from 0 to 9`},
	} {
		var level int
		var word string
		given, err := small(&level, &word).Read(strings.Fields(c.args), []string{c.environ})
		if err == nil {
			err = given.Apply()
		}
		var refusal *Error
		if c.fail != "" && (!errors.As(err, &refusal) || !strings.HasPrefix(err.Error(), c.fail)) {
			t.Errorf("%q %q: %v", c.args, c.environ, err)
		}
		if c.fail == "" && (err != nil || level != c.level || word != c.word) {
			t.Errorf("%q %q: level %d, word %q, %v", c.args, c.environ, level, word, err)
		}
	}
}

// TestHelpManualAndCompletionAreComplete checks that each contains every flag and command.
func TestHelpManualAndCompletionAreComplete(t *testing.T) {
	p := small(new(int), new(string))
	var help, page, bash strings.Builder
	if err := errors.Join(p.WriteHelp(&help), p.WriteManual(&page), p.WriteCompletion(&bash, "bash")); err != nil {
		t.Fatal(err)
	}
	for text, wants := range map[string][]string{
		help.String(): {"  a-program echo [WORD]        print a word\n", "--log-level is A_PROGRAM_LOG_LEVEL.\nA flag overrides its variable, and", "log level (default 1)\n"},
		page.String(): {".TH A\\-PROGRAM 8", "a\\-program \\- little\n", ".B \\-\\-log\\-level\nis\n.BR A_PROGRAM_LOG_LEVEL .\n", ".BR true (1)\n"},
		bash.String(): {"complete -F _a_program a-program\n", `_a_program_words "echo"`},
	} {
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
}

func TestCommandHelpListsItsFlags(t *testing.T) {
	p := small(new(int), new(string))
	p.Commands[1].Uses = []string{"log-level"}
	var help strings.Builder
	if err := p.WriteCommandHelp(&help, "echo"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"a-program echo: print a word.\n\nUsage:\n  a-program echo [WORD] [flags]\n\nFlags of this command:\n  --loud ",
		" shout\n\nFlags that it shares with", ":\n  --log-level LEVEL ",
	} {
		if !strings.Contains(help.String(), want) {
			t.Errorf("no %q in\n%s", want, help.String())
		}
	}
	var refusal *Error
	if err := p.WriteCommandHelp(&help, "echoo"); !errors.As(err, &refusal) || !strings.HasPrefix(err.Error(), `unknown command "echoo"; did you mean "echo"?`) {
		t.Error(err)
	}
}
