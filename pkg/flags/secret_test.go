package flags

import (
	"fmt"
	"strings"
	"testing"
)

func TestSecretIsNotPrinted(t *testing.T) {
	const text = "hunter2zq"
	type inside struct{ s Secret }
	s := NewSecret(text)
	if s.Reveal() != text || s.String() != hidden {
		t.Errorf("got %q, shown as %s", s.Reveal(), s)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, what := range []any{s, &s, inside{s}, []Secret{s}} {
			if got := fmt.Sprintf(verb, what); strings.Contains(got, text) || strings.Contains(got, fmt.Sprintf("%x", text)) {
				t.Errorf("%s shows %s", verb, got)
			}
		}
	}
	if s := (Secret{}); s.Reveal() != "" || s.String() != "" || fmt.Sprintf("%#v", s) != "" {
		t.Errorf("no secret is %q, shown as %s", s.Reveal(), s)
	}
}
