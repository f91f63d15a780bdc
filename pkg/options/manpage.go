package options

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	manBegin = `.TH TULLED 8 "" tulle
.SH NAME
tulled \- a container network across hosts
.SH SYNOPSIS
`
	manDescription = `.SH DESCRIPTION
.B tulled
runs on every host of a cluster and gives it its piece of a container network:
it leases a subnet in etcd, tells the container runtime,
and keeps this host's tunnels and routes to all others right.
What others change of them it puts right again,
and what is not its own it leaves alone.
.PP
When it ends, devices, routes and files stay, and containers go on talking;
.B tulled cleanup
removes them.
.PP
It takes flannel's place on a host:
the flags, the variables and the keys in etcd are flannel's.
It needs root, or
.B CAP_NET_ADMIN
and a network namespace whose settings below
.I /proc/sys/net
it may write.
.PP
SIGTERM and SIGINT end it.
SIGHUP has it read the password file again and look at the kernel in full.
`
	manOptions = `.SH OPTIONS
One dash does as well as two.
A flag without a value is a truth value: it alone means true, and
.B =false
behind it turns it off.
The last counts of a flag that is given more than once, unless it is repeatable.
`
	manEnvironment = `.SH ENVIRONMENT
Every flag is a variable too:
.B \-\-etcd\-prefix
is
.BR TULLED_ETCD_PREFIX ,
or
.B FLANNELD_ETCD_PREFIX
as with flannel.
A flag beats TULLED_, TULLED_ beats FLANNELD_, and an empty variable is none.
An unknown variable that begins with TULLED_ is refused.
`
	manExit = `.SH EXIT STATUS
.TP
.B 0
It did what it was told; a daemon that was told to end has ended.
.TP
.B 1
It did not, and standard error says why and what can be done.
Also of
.BR "tulled status" :
the daemon runs and is not ready.
`
	manEnd = `.SH SEE ALSO
.BR ip (8),
.BR bridge (8),
.BR nft (8),
.BR etcdctl (1),
.BR systemd.service (5)
`
)

// ManPage writes tulled(8): what Help says, and what there is to say besides,
// for man.
func ManPage(w io.Writer) error {
	var p manPage
	p.WriteString(manBegin)
	for i, c := range commands() {
		if i > 0 {
			p.WriteString(".br\n")
		}
		p.WriteString(".B tulled\n")
		p.text(strings.TrimSpace(c.name + " " + c.value))
	}
	p.WriteString(manDescription)
	p.WriteString(".SH COMMANDS\n")
	for _, c := range commands() {
		p.item("tulled "+c.name, c.value)
		p.sentence(c.about)
	}
	p.WriteString(manOptions)
	group := ""
	for _, f := range table {
		if f.group != group {
			group = f.group
			fmt.Fprintf(&p, ".SS %s\n", roff(group))
		}
		p.flag(f)
	}
	p.WriteString(manEnvironment)
	p.files()
	p.WriteString(manExit)
	p.examples()
	p.WriteString(manEnd)
	_, err := io.WriteString(w, p.String())
	return err
}

// manPage is a page as it is written.
type manPage struct{ strings.Builder }

// text is a line of running text.
func (p *manPage) text(s string) { p.WriteString(roff(s) + "\n") }

// sentence is a line that has neither capital nor full stop in the help.
func (p *manPage) sentence(s string) {
	first, size := utf8.DecodeRuneInString(s)
	p.text(string(unicode.ToUpper(first)) + s[size:] + ".")
}

// item begins a paragraph with a name that hangs out, and what comes with it.
func (p *manPage) item(name, value string) {
	fmt.Fprintf(p, ".TP\n\\fB%s\\fR", strings.TrimSpace(roff(name)))
	if value != "" {
		fmt.Fprintf(p, " \\fI%s\\fR", roff(value))
	}
	p.WriteString("\n")
}

func (p *manPage) flag(f flag) {
	p.item(f.written(), f.value)
	p.sentence(f.about)
	if f.fallback != "" && f.fallback != "false" {
		p.text("Default: " + f.fallback + ".")
	}
}

// files are those that flags name by default, and those that nobody names.
func (p *manPage) files() {
	p.WriteString(".SH FILES\n")
	for _, f := range table {
		if (f.value == "FILE" || f.value == "DIR") && f.fallback != "" {
			p.file(f.fallback, f.about+" ("+f.written()+")")
		}
	}
	p.file("/etc/machine-id", "this host's identity, without --node-id")
	p.file("/etc/default/tulled", "variables for the systemd unit")
}

func (p *manPage) file(path, about string) {
	fmt.Fprintf(p, ".TP\n.I %s\n", roff(path))
	p.sentence(about)
}

// examples are those of the help.
func (p *manPage) examples() {
	p.WriteString(".SH EXAMPLES\n.EX\n")
	_, lines, _ := strings.Cut(helpEnd, "Examples:\n")
	for line := range strings.Lines(lines) {
		p.text(strings.TrimSpace(line))
	}
	p.WriteString(".EE\n")
}

// roff is s as roff reads it: nothing in it commands the formatter, and what
// looks like ASCII stays so, for people paste it.
func roff(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case i == 0 && (r == '.' || r == '\''):
			b.WriteString(`\&` + string(r))
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r == '^':
			b.WriteString(`\(ha`)
		case r == '~':
			b.WriteString(`\(ti`)
		case r == '`':
			b.WriteString(`\(ga`)
		case r == '"':
			b.WriteString(`\(dq`)
		case r == '\n':
			b.WriteByte(' ')
		case r > '~':
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
