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
runs on every host of a cluster.
It leases a subnet for the host in etcd or Kubernetes,
writes the configuration of the container runtime,
and keeps this host's tunnels and routes to all other hosts in sync.
It restores what other programs change of them,
and never changes what is not its own.
.PP
When it stops, devices, routes and files stay, and containers keep their network;
.B tulled cleanup
removes them.
.PP
It replaces flannel on a host:
the flags, the variables and the keys in etcd are flannel's.
It needs root, or
.B CAP_NET_ADMIN
and a network namespace where the settings in
.I /proc/sys/net
are writable.
.PP
SIGTERM and SIGINT stop it.
On SIGHUP it reads the password file again and does a full resync with the kernel.
`
	manOptions = `.SH OPTIONS
One dash works as well as two.
A flag without a value is a boolean: it alone means true, and
.B =false
behind it turns it off.
Of a flag given more than once the last one counts, unless it is repeatable.
`
	manEnvironment = `.SH ENVIRONMENT
Every flag is also a variable:
.B \-\-etcd\-prefix
is
.BR TULLED_ETCD_PREFIX ,
or
.B FLANNELD_ETCD_PREFIX
as with flannel.
A flag overrides TULLED_, TULLED_ overrides FLANNELD_,
and an empty variable counts as unset.
tulled refuses an unknown variable that begins with TULLED_.
`
	manExit = `.SH EXIT STATUS
.TP
.B 0
Success; a daemon stopped on a signal.
.TP
.B 1
Failure. Of
.BR "tulled status" :
the daemon is not ready. Of
.BR "tulled explain" :
something that should lead to the address is missing, or does not answer. Of
.BR "tulled check-config" :
the config is invalid. Standard error gives every other reason, and the fix.
.TP
.B 2
A flag, a variable or an argument is wrong; nothing was done.
.TP
.B 3
No daemon answers on this host.
`
	manEnd = `.SH SEE ALSO
.BR ip (8),
.BR bridge (8),
.BR nft (8),
.BR etcdctl (1),
.BR systemd.service (5)
`
)

// ManPage writes tulled(8), in the format of man.
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

// manPage builds the page.
type manPage struct{ strings.Builder }

// text writes a line of running text.
func (p *manPage) text(s string) { p.WriteString(roff(s) + "\n") }

// sentence writes a text of the help with a capital and a full stop.
func (p *manPage) sentence(s string) {
	first, size := utf8.DecodeRuneInString(s)
	p.text(string(unicode.ToUpper(first)) + s[size:] + ".")
}

// item begins a paragraph with a hanging name and its value.
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

// files writes the flags' default files, and those without a flag.
func (p *manPage) files() {
	p.WriteString(".SH FILES\n")
	for _, f := range table {
		if (f.value == "FILE" || f.value == "DIR") && f.fallback != "" {
			p.file(f.fallback, f.about+" ("+f.written()+")")
		}
	}
	p.file("/etc/machine-id", "ID of this host, without --node-id")
	p.file("/etc/default/tulled", "variables for the systemd unit")
}

func (p *manPage) file(path, about string) {
	fmt.Fprintf(p, ".TP\n.I %s\n", roff(path))
	p.sentence(about)
}

// examples writes the help's examples.
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
