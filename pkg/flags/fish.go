package flags

import (
	"fmt"
	"strings"
)

// fishScript is a template. fishCompletion fills in %COMMANDS% from the table.
const fishScript = `# fish completion for %NAME%
function __%FUNCTION%_needs_command
	not __fish_seen_subcommand_from %COMMANDS%
end

complete -c %NAME% -f
`

func fishCompletion(p Program) string {
	quote := func(s string) string { return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'" }
	lister := func(k kind, choices []string) string {
		switch k {
		case oneOf:
			return " -a " + quote(strings.Join(choices, " "))
		case aFile:
			return " -F"
		case aFolder:
			return " -a '(__fish_complete_directories)'"
		case anInterface:
			return " -a '(__fish_print_interfaces)'"
		}
		return ""
	}
	complete := "complete -c " + p.Name
	var b strings.Builder
	var names []string
	for _, c := range p.named() {
		names = append(names, c.Name)
	}
	b.WriteString(strings.ReplaceAll(fishScript, "%COMMANDS%", strings.Join(names, " ")))
	for _, c := range p.named() {
		fmt.Fprintf(&b, "%s -n __%%FUNCTION%%_needs_command -a %s -d %s\n", complete, c.Name, quote(c.About))
		if list := lister(c.kind(), c.Choices); list != "" {
			fmt.Fprintf(&b, "%s -n '__fish_seen_subcommand_from %s'%s\n", complete, c.Name, list)
		}
	}
	for _, f := range p.Flags {
		name := " -l " + f.Name
		if len(f.Name) == 1 {
			name = " -s " + f.Name
		}
		switch {
		case f.isBool(): // its value follows an equals sign only
		case f.kind() == aFile:
			name += " -r"
		default:
			name += " -x" // offers no files
		}
		if len(f.Only) > 0 {
			name = " -n '__fish_seen_subcommand_from " + strings.Join(f.Only, " ") + "'" + name
		}
		fmt.Fprintf(&b, "%s%s%s -d %s\n", complete, name, lister(f.kind(), f.choices()), quote(f.about()))
	}
	return b.String()
}
