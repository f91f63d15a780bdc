package command

import (
	"io"
	"os"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// terminal describes the output of a command.
type terminal struct {
	is     bool // a terminal
	colour bool
	width  int // in columns; 0 means unknown
}

// terminalOf returns the terminal behind out. NO_COLOR and TERM=dumb turn colours
// off.
func terminalOf(out io.Writer, variable func(string) string) terminal {
	f, isFile := out.(*os.File)
	if !isFile {
		return terminal{}
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return terminal{}
	}
	return terminal{is: true, colour: variable("NO_COLOR") == "" && variable("TERM") != "dumb", width: int(size.Col)}
}

const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
	// cleared clears the screen and moves to its beginning.
	cleared = "\x1b[H\x1b[2J"
)

// paint colours a good or a bad text.
func (t terminal) paint(good bool, text string) string {
	switch {
	case !t.colour:
		return text
	case good:
		return green + text + plain
	}
	return red + text + plain
}

// The words and lines of reports that have a colour.
var (
	badWords   = regexp.MustCompile(`\bNOT (READY|in sync)\b|\b\d+ (UNROUTABLE|FAIL)\b`)
	goodWords  = regexp.MustCompile(`^(tulled: +)(ready)\b`)
	badLines   = regexp.MustCompile(`^(  (reason|failing|problem|CLONE|MISSING|WRONG|UNEXPECTED)|file|fight|exposed):`)
	goodLines  = regexp.MustCompile(`^  ok:`)
	warnsLines = regexp.MustCompile(`^(  (rejected|reserved|ignored|foreign)|warning):`)
)

// report colours a report: its problems, and what works.
func (t terminal) report(text string) string {
	if !t.colour {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case badLines.MatchString(line):
			line = red + line + plain
		case warnsLines.MatchString(line):
			line = yellow + line + plain
		case goodLines.MatchString(line):
			line = green + line + plain
		default:
			line = goodWords.ReplaceAllString(line, "$1"+green+"$2"+plain)
			line = badWords.ReplaceAllString(line, red+"$0"+plain)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
