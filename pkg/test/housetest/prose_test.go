package housetest

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var prose = rule{
	name: "comments, messages and pages avoid phrases that take two readings",
	why: "a newcomer reads each sentence once, and an operator searches for the words of the trade. " +
		"The subject does something: \"The store retries the watch\", not \"the watch is begun again by it\".",
	check: func(h house) (found []finding) {
		for _, f := range h {
			switch {
			case f.path == self, path.Base(f.path) == "LICENSE", path.Ext(f.path) == ".sum":
				continue
			}
			flat := strings.Join(strings.FieldsFunc(f.text, isBreak), " ")
			for _, p := range phrases {
				if len(p.needs) > 0 && !slices.ContainsFunc(p.needs, func(words string) bool { return strings.Contains(flat, words) }) {
					continue // quicker than the pattern
				}
				for _, at := range p.pattern.FindAllStringIndex(f.text, -1) {
					if relative.MatchString(f.text[at[0]:at[1]]) {
						continue
					}
					line := 1 + strings.Count(f.text[:at[0]], "\n")
					said := strings.TrimRight(strings.Join(strings.FieldsFunc(f.text[at[0]:at[1]], isBreak), " "), ",.:;")
					found = append(found, finding{fmt.Sprintf("%s:%d", f.path, line), fmt.Sprintf("has %q; %s", said, p.instead)})
				}
			}
		}
		return found
	},
}

// self has the phrases, so the rule does not read it.
const self = "pkg/test/housetest/prose_test.go"

// phrase is a phrase to avoid, and what to write. Where the pattern matches, the text has one of
// needs, with a space between two words. Without needs, every text is searched.
type phrase struct {
	pattern *regexp.Regexp
	instead string
	needs   []string
}

var phrases = []phrase{
	avoid(`anew`, `write "again", "re-create" or "restart"`),
	avoid(`as (?:it|they|all|everything) should`, `name the state: "valid", "in sync", "holds what is wanted"`, "as it should", "as they should", "as all should", "as everything should"),
	avoid(`(?:took|takes?|taking) notes?`, `write "records"`, "took note", "take note", "takes note", "taking note"),
	avoid(`all the same`, `write "nevertheless", or nothing`),
	avoid(`besides`, `write "also" or "in addition"`),
	avoid(`(?:am|are|be|been|being|is|was|were) of (?:any |great |little |no )?use`, `write "valid", "usable" or "helps"`, "of use", "of any use", "of great use", "of little use", "of no use"),
	avoid(`told of`, `write "reported" or "learned"`),
	avoid(`tell(?:s|ing)? of`, `write "report", "announce" or "describe"`, "tell of", "tells of", "telling of"),
	avoid(`[Nn]obody`, `name the thing: "no node", "no process"`, "obody"),
	avoid(`(?:[Ee]very|[Ss]ome)body`, `name the thing: "every node", "another program", "a person"`, "verybody", "omebody"),
	avoid(`[Ww]hoever`, `name the thing: "any program", "the client that"`, "hoever"),
	avoid(`none the worse`, `write "works without it"`),
	avoid(`parted by`, `write "separated by"`),
	avoid(`puts? right`, `write "restore" or "correct"`, "put right", "puts right"),
	avoid(`in the place of`, `write "in place of" or "instead of"`),
	avoid(`in vain`, `write "timed out", "failed" or "without success"`),
	avoid(`ha(?:s|ve) not (?:an?|any|its|the)`, `write "lacks" or "does not have"`, "has not", "have not"),
	avoid(`of no account`, `write "does not matter"`),
	avoid(`(?:give|gives|gave|giving) way`, `write "yield"`, "give way", "gives way", "gave way", "giving way"),
	avoid(`(?:say|says|said|tells?|told) whether`, `write "reports whether"`, "say whether", "says whether", "said whether", "tell whether", "tells whether", "told whether"),
	avoid(`himself|herself`, `machines and programs are "it"`, "himself", "herself"),
	avoid(`(?:caller|client|daemon|goroutine|host|kernel|machine|node|peer|process|program|server|store|watcher)s?,? who`, `machines and programs are "that" or "which"`, " who"),
	{causative, `say what it does: "Freeze stops etcd", not that it has etcd do nothing`, []string{" has "}},
}

// avoid returns the phrase of words in a row, also across the lines of a comment. If they are a
// pattern, needs may list plain words of each match, which makes the search quicker.
func avoid(words, instead string, needs ...string) phrase {
	if len(needs) == 0 && regexp.QuoteMeta(words) == words {
		needs = []string{words}
	}
	return phrase{regexp.MustCompile(`\b(?:` + across(words) + `)\b`), instead, needs}
}

func across(words string) string { return strings.ReplaceAll(words, " ", gap) }

// gap matches what may be between two words, including a new line of a comment.
const gap = `(?:[ \t]+|[ \t]*\n[ \t]*(?:(?://|#)[ \t]*)?)`

// causative matches the beginning of a comment such as "Freeze has the server do nothing".
// Verbs that are nouns, too, are left out: "Config has the name of a run" is fine.
var causative = regexp.MustCompile(`(?m)^[ \t]*// \w+` + across(` has (?:an?|all|another|any|each|every|etcd|its?|no|one|some|systemd|the|them) (?:[\w'-]+ ){0,4}?(?:`+
	`be|become|begin|believe|choose|come|die|do|fail|find|follow|forget|give|go|hear|hold|keep|know|leave|lose|make|remain|run|see|send|stay|take|tell|think|wait|write)(?:[\s,.:;]|$)`))

// relative matches words by which a verb belongs to another noun: "has a list that must be sorted".
var relative = regexp.MustCompile(` has .*\b(?:that|to|what|which|who|whose)\s`)

func isBreak(r rune) bool { return strings.ContainsRune(" \t\n/#", r) }

// TestAvoidedPhrasesAreFound shows what the rule finds, and what looks similar and is allowed.
func TestAvoidedPhrasesAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"// The device is made anew.":                              "anew",
		"const anew = 1":                                           "anew",
		"a new device, renewed, canew":                             "",
		"all is as it should be":                                   "as it should",
		"keeps files as they\n\t// should be":                      "as they should",
		"as it shouldered, as should be":                           "",
		"// saw takes note of it":                                  "takes note",
		"a note that takes room":                                   "",
		"it stays all the same":                                    "all the same",
		"all of the same kind":                                     "",
		"now and then besides":                                     "besides",
		"it stands beside ours":                                    "",
		"a file that is of no use":                                 "is of no use",
		"is of\n\t# use":                                           "is of use",
		"the end of use, of user accounts":                         "",
		"what is told of a Node":                                   "told of",
		"told\n// of a Node":                                       "told of",
		"told\n// officially; it told Offa":                        "",
		"the kernel tells of it":                                   "tells of",
		"hotels of, motel of":                                      "",
		"Nobody changes it":                                        "Nobody",
		"Somebody's route, as everybody sees":                      "Somebody, everybody",
		"whoever asks, whomever":                                   "whoever",
		"It puts right what is wrong; put rightly":                 "puts right",
		"the later gives way, and a giveaway":                      "gives way",
		"words parted by a space are of no account":                "parted by, of no account",
		"Body: http.NoBody":                                        "",
		"it is in the\n// place of ours, in place of it":           "in the place of",
		"it waited in vain, in vains":                              "in vain",
		"a host that has not its peers, which have not\n// any":    "has not its, have not any",
		"it has not an answered, it has not come":                  "has not an",
		"has says whether":                                         "says whether",
		"says what, whether or not":                                "",
		"a peer who goes by himself":                               "himself, peer who",
		"hosts, who are":                                           "hosts, who",
		"a host whose daemon is down, a person who asks":           "",
		"\t// Freeze has etcd do nothing until Thaw.":              "Freeze has etcd do",
		"// fail has the next n\n// calls fail.":                   "fail has the next n calls fail",
		"// Lease has a name; to give it up is to lose the subnet": "",
		"// T has a thousand programs that fail at once":           "",
		"// T has a name to give.":                                 "",
		"// Config has the run's name and its change":              "",
		"x := has(the, be)":                                        "",
	} {
		var got []string
		for _, f := range prose.check(house{{path: "a/a.txt", text: text}}) {
			said, _, _ := strings.Cut(strings.TrimPrefix(f.what, `has "`), `"`)
			got = append(got, said)
		}
		if joined := strings.Join(got, ", "); joined != want {
			t.Errorf("%q: found %q, want %q", text, joined, want)
		}
	}
}
