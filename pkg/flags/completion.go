package flags

import (
	"fmt"
	"io"
	"strings"
)

// Shells returns the shells that WriteCompletion supports.
func Shells() []string { return []string{"bash", "zsh", "fish"} }

// WriteCompletion writes the script with which a shell completes the program's commands,
// flags and values.
func (p Program) WriteCompletion(w io.Writer, shell string) error {
	write := map[string]func(Program) string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[shell]
	if write == nil {
		return fmt.Errorf("no completions for shell %.60q; use one of %s", shell, strings.Join(Shells(), ", "))
	}
	function := strings.ReplaceAll(p.Name, "-", "_")
	text := strings.NewReplacer("%NAME%", p.Name, "%FUNCTION%", function).Replace(write(p))
	_, err := io.WriteString(w, text)
	return err
}

// choices returns the values of a flag that has only a few.
func (f Flag) choices() []string {
	if len(f.Choices) == 0 && f.isBool() {
		return []string{"true", "false"}
	}
	return f.Choices
}

// kind is the kind of a value. A shell can list the values of most kinds.
type kind int

const (
	free kind = iota
	oneOf
	aFile
	aFolder
	anInterface
)

// kind returns the kind of the flag's value.
func (f Flag) kind() kind {
	if f.Interfaces {
		return anInterface
	}
	return kindOf(f.choices(), f.Value)
}

// kind returns the kind of the command's word.
func (c Command) kind() kind { return kindOf(c.Choices, strings.Trim(c.Value, "[]")) }

func kindOf(choices []string, value string) kind {
	switch {
	case len(choices) > 0:
		return oneOf
	case value == "FILE":
		return aFile
	case value == "DIR":
		return aFolder
	}
	return free
}
