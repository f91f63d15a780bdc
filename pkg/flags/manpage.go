package flags

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Manual is the part of a manual page that the help does not have. Its texts are in roff.
type Manual struct {
	Summary     string // follows the program's name
	Description string
	Files       []ManualFile // in addition to the flags' defaults
	Exit        string
	Also        []string // other pages, like ip(8)
}

// ManualFile is a file that the manual page explains.
type ManualFile struct{ Path, About string }

const manOptions = `.SH OPTIONS
One dash works as well as two.
A flag without a value is a boolean: it alone means true, and
.B =false
behind it turns it off.
Of a flag given more than once the last one counts, unless it is repeatable.
`

// WriteManual writes the program's page of section 8, in roff.
func (p Program) WriteManual(w io.Writer) error {
	var page manPage
	fmt.Fprintf(&page, ".TH %s 8 \"\" tulle\n.SH NAME\n", roff(strings.ToUpper(p.Name)))
	fmt.Fprintf(&page, "%s \\- %s\n", roff(p.Name), roff(p.Manual.Summary))
	page.WriteString(".SH SYNOPSIS\n")
	for i, c := range p.Commands {
		if i > 0 {
			page.WriteString(".br\n")
		}
		fmt.Fprintf(&page, ".B %s\n", roff(p.Name))
		page.text(strings.TrimSpace(c.Name + " " + c.Value))
	}
	page.WriteString(".SH DESCRIPTION\n" + p.Manual.Description + ".SH COMMANDS\n")
	for _, c := range p.Commands {
		page.item(p.Name+" "+c.Name, c.Value)
		page.sentence(c.About)
	}
	page.WriteString(manOptions)
	group := ""
	for _, f := range p.Flags {
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(&page, ".SS %s\n", roff(group))
		}
		page.flag(f)
	}
	page.environment(p)
	page.files(p)
	page.WriteString(".SH EXIT STATUS\n" + p.Manual.Exit)
	page.examples(p.Examples)
	page.also(p.Manual.Also)
	_, err := io.WriteString(w, page.String())
	return err
}

// manPage builds a manual page.
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

func (p *manPage) flag(f Flag) {
	p.item(f.Written(), f.Value)
	p.sentence(f.about())
	if f.hasDefault() {
		p.text("Default: " + f.Default + ".")
	}
}

// environment writes the section on the flags' variables.
func (p *manPage) environment(of Program) {
	example, _ := of.Find(of.Example)
	fmt.Fprintf(p, ".SH ENVIRONMENT\nEvery flag is also a variable:\n.B %s\nis\n", roff(example.Written()))
	for i, prefix := range of.Prefixes {
		if i > 0 {
			p.WriteString(" ,\nor\n")
		}
		fmt.Fprintf(p, ".BR %s%s", prefix, example.Variable())
	}
	p.WriteString(" .\n" + of.precedence("\n") + ".\n")
	p.text(of.Name + " refuses an unknown variable that begins with " + of.Prefixes[0] + ".")
}

// files writes the flags' default files, and those without a flag.
func (p *manPage) files(of Program) {
	p.WriteString(".SH FILES\n")
	for _, f := range of.Flags {
		if (f.Value == "FILE" || f.Value == "DIR") && f.Default != "" {
			p.file(f.Default, f.About+" ("+f.Written()+")")
		}
	}
	for _, f := range of.Manual.Files {
		p.file(f.Path, f.About)
	}
}

func (p *manPage) file(path, about string) {
	fmt.Fprintf(p, ".TP\n.I %s\n", roff(path))
	p.sentence(about)
}

func (p *manPage) examples(lines []string) {
	p.WriteString(".SH EXAMPLES\n.EX\n")
	for _, line := range lines {
		p.text(line)
	}
	p.WriteString(".EE\n")
}

// also writes the names of other pages, with their sections.
func (p *manPage) also(pages []string) {
	p.WriteString(".SH SEE ALSO\n")
	for i, page := range pages {
		name, section, _ := strings.Cut(page, "(")
		end := ","
		if i == len(pages)-1 {
			end = ""
		}
		fmt.Fprintf(p, ".BR %s (%s%s\n", roff(name), section, end)
	}
}

// roff escapes s for roff: no text in it is a command, and ASCII characters stay ASCII, so
// that people can paste them.
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
