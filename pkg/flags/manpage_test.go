package flags

import "testing"

// TestRoffEscapesCommands checks that no text becomes a command of the formatter.
func TestRoffEscapesCommands(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain text", "plain text"},
		{".so /etc/passwd", `\&.so /etc/passwd`},
		{"'br", `\&'br`},
		{"it's a. b", "it's a. b"},
		{`a\fBb`, `a\efBb`},
		{"--etcd-prefix", `\-\-etcd\-prefix`},
		{"^~`\"", `\(ha\(ti\(ga\(dq`},
		{"a\n.so b", `a .so b`},
		{"FILE=LEVEL,…", `FILE=LEVEL,\[u2026]`},
	} {
		if got := roff(c.in); got != c.want {
			t.Errorf("%q: got %q, want %q", c.in, got, c.want)
		}
	}
}
