package options

import (
	"fmt"
	"io"
	"strings"
)

// Shells are those that Completion writes for.
func Shells() []string { return []string{"bash", "zsh", "fish"} }

// Completion writes a script by which a shell completes tulled's commands,
// flags and values.
func Completion(w io.Writer, shell string) error {
	write := map[string]func() string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[shell]
	if write == nil {
		return fmt.Errorf("no completions for shell %.60q; use one of %s", shell, strings.Join(Shells(), ", "))
	}
	_, err := io.WriteString(w, write())
	return err
}

// command is one line of the help's usage.
type command struct {
	name  string // "" is the daemon
	value string // what the help calls its word, as in [FILE]
	about string
}

// commands are those that the help lists.
func commands() []command {
	var all []command
	for line := range strings.Lines(helpBegin) {
		usage, ok := strings.CutPrefix(line, "  tulled ")
		if !ok {
			continue
		}
		left, about, _ := strings.Cut(usage, "  ")
		c := command{name: left, about: strings.TrimSpace(about)}
		c.name, c.value, _ = strings.Cut(left, " ")
		if c.name == "[flags]" {
			c.name, c.value = "", c.name
		}
		all = append(all, c)
	}
	return all
}

// named are the commands that have a name.
func named() []command {
	var all []command
	for _, c := range commands() {
		if c.name != "" {
			all = append(all, c)
		}
	}
	return all
}

// words are what a command may be followed by, where it is one of a few.
func (c command) words() []string {
	if c.name == "completion" {
		return Shells()
	}
	return nil
}

// choices are the values of a flag that has a few.
func (f flag) choices() []string {
	switch f.name {
	case "filter":
		return []string{string(FilterAuto), string(FilterNFTables), string(FilterIPTables), string(FilterNone)}
	case "output":
		return []string{string(Text), string(JSON), string(YAML)}
	case "backend":
		return []string{"alloc", "host-gw", "ipip", "vxlan"}
	case "ip-masq":
		return []string{"true", "false", "ipv4", "ipv6"}
	case "public-ip-from":
		return []string{"interface", "external"}
	}
	if f.truth() {
		return []string{"true", "false"}
	}
	return nil
}

// kind is what a value is, for a shell that can list what there is on the host.
type kind int

const (
	free kind = iota
	oneOf
	aFile
	aFolder
	anInterface
)

// kind is that of the flag's value.
func (f flag) kind() kind {
	switch {
	case len(f.choices()) > 0:
		return oneOf
	case f.value == "FILE":
		return aFile
	case f.value == "DIR":
		return aFolder
	case f.name == "iface":
		return anInterface
	}
	return free
}

// kind is that of the command's word.
func (c command) kind() kind {
	switch {
	case len(c.words()) > 0:
		return oneOf
	case strings.Trim(c.value, "[]") == "FILE":
		return aFile
	case strings.Trim(c.value, "[]") == "DIR":
		return aFolder
	}
	return free
}

// single is s between single quotes, for zsh.
func single(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// The scripts follow. %FLAGS% and their like are what the table says.

const bashScript = `# bash completion for tulled
_tulled() {
	# bash cuts words at equals signs and colons, so they are cut here, at spaces.
	local line=${COMP_LINE:0:COMP_POINT} of= command= prefix= word name
	local -a words
	read -a words <<<"$line"
	[[ $line != *[[:space:]] ]] || words+=("")
	local cur=${words[${#words[@]} - 1]}
	COMPREPLY=()
	for word in "${words[@]:1:${#words[@]} - 2}"; do
		name=${word#-} name=${name#-}
		if [[ $of ]]; then
			of=
		elif [[ $word != -* ]]; then
			: "${command:=$word}"
		else
			case $name in
			%VALUED%) of=$name ;;
			esac
		fi
	done
	if [[ ! $of && $cur == -*=* ]]; then
		prefix=${cur%%=*}= cur=${cur#*=}
		of=${prefix#-} of=${of#-} of=${of%=}
		[[ $COMP_WORDBREAKS != *=* ]] || prefix= # all up to there stays
	fi
	case $of in
	'')
		if [[ $cur == -* ]]; then
			_tulled_words "%FLAGS%"
		elif [[ ! $command ]]; then
			_tulled_words "%COMMANDS%"
		else
			case $command in
%WORDS%			esac
		fi
		;;
%VALUES%	esac
	COMPREPLY=("${COMPREPLY[@]/#/$prefix}")
}

_tulled_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"); }

_tulled_paths() {
	mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
	compopt -o filenames 2>/dev/null
}

complete -F _tulled tulled
`

func bashCompletion() string {
	lister := func(k kind, choices []string) string {
		switch k {
		case oneOf:
			return `_tulled_words "` + strings.Join(choices, " ") + `"`
		case aFile:
			return "_tulled_paths -f"
		case aFolder:
			return "_tulled_paths -d"
		case anInterface:
			return `_tulled_words "$(ls /sys/class/net)"`
		}
		return ""
	}
	var flags, valued, names []string
	var values, words strings.Builder
	for _, f := range table {
		flags = append(flags, f.written())
		if !f.truth() {
			valued = append(valued, f.name)
		}
		if list := lister(f.kind(), f.choices()); list != "" {
			fmt.Fprintf(&values, "\t%s) %s ;;\n", f.name, list)
		}
	}
	for _, c := range named() {
		names = append(names, c.name)
		if list := lister(c.kind(), c.words()); list != "" {
			fmt.Fprintf(&words, "\t\t\t%s) %s ;;\n", c.name, list)
		}
	}
	return strings.NewReplacer(
		"%FLAGS%", strings.Join(flags, " "), "%COMMANDS%", strings.Join(names, " "),
		"%VALUED%", strings.Join(valued, " | "), "%VALUES%", values.String(), "%WORDS%", words.String(),
	).Replace(bashScript)
}

const zshScript = `#compdef tulled
# zsh completion for tulled
_tulled() {
	local curcontext=$curcontext state line ret=1
	typeset -A opt_args
	local -a commands=(
%COMMANDS%	)
	_arguments -C \
%FLAGS%		'1: :->command' \
		'2: :->word' && ret=0
	case $state in
	command) _describe -t commands command commands && ret=0 ;;
	word)
		case $line[1] in
%WORDS%		esac
		;;
	esac
	return ret
}

# It is a function of its own when it is loaded by its name, and else is read.
if [[ ${funcstack[1]} == _tulled ]]; then
	_tulled "$@"
else
	compdef _tulled tulled
fi
`

func zshCompletion() string {
	lister := func(k kind, choices []string) string {
		switch k {
		case oneOf:
			return "(" + strings.Join(choices, " ") + ")"
		case aFile:
			return "_files"
		case aFolder:
			return "_files -/"
		case anInterface:
			return "_net_interfaces"
		}
		return " " // nothing to list
	}
	escape := strings.NewReplacer(`\`, `\\`, ":", `\:`, "[", `\[`, "]", `\]`).Replace
	var flags, commands, words strings.Builder
	for _, f := range table {
		spec := f.written()
		if f.many {
			spec = "*" + spec
		}
		values := escape(f.value) + ":" + lister(f.kind(), f.choices())
		if f.truth() {
			spec += "=-[" + escape(f.about) + "]::true or false:" + values[1:]
		} else {
			spec += "=[" + escape(f.about) + "]:" + values
		}
		fmt.Fprintf(&flags, "\t\t%s \\\n", single(spec))
	}
	for _, c := range named() {
		fmt.Fprintf(&commands, "\t\t%s\n", single(escape(c.name)+":"+c.about))
		switch c.kind() {
		case aFile:
			fmt.Fprintf(&words, "\t\t%s) _files && ret=0 ;;\n", c.name)
		case aFolder:
			fmt.Fprintf(&words, "\t\t%s) _files -/ && ret=0 ;;\n", c.name)
		case oneOf:
			fmt.Fprintf(&words, "\t\t%s) compadd %s && ret=0 ;;\n", c.name, strings.Join(c.words(), " "))
		}
	}
	return strings.NewReplacer("%COMMANDS%", commands.String(), "%FLAGS%", flags.String(), "%WORDS%", words.String()).Replace(zshScript)
}

const fishScript = `# fish completion for tulled
function __tulled_needs_command
	not __fish_seen_subcommand_from %COMMANDS%
end

complete -c tulled -f
`

func fishCompletion() string {
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
	var b strings.Builder
	var names []string
	for _, c := range named() {
		names = append(names, c.name)
	}
	b.WriteString(strings.ReplaceAll(fishScript, "%COMMANDS%", strings.Join(names, " ")))
	for _, c := range named() {
		fmt.Fprintf(&b, "complete -c tulled -n __tulled_needs_command -a %s -d %s\n", c.name, quote(c.about))
		if list := lister(c.kind(), c.words()); list != "" {
			fmt.Fprintf(&b, "complete -c tulled -n '__fish_seen_subcommand_from %s'%s\n", c.name, list)
		}
	}
	for _, f := range table {
		name := " -l " + f.name
		if len(f.name) == 1 {
			name = " -s " + f.name
		}
		switch {
		case f.truth(): // its value is only behind an equals sign
		case f.kind() == aFile:
			name += " -r"
		default:
			name += " -x" // and no files
		}
		fmt.Fprintf(&b, "complete -c tulled%s%s -d %s\n", name, lister(f.kind(), f.choices()), quote(f.about))
	}
	return b.String()
}
