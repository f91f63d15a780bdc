package flags

import (
	"fmt"
	"slices"
	"strings"
)

// bashScript is a template. bashCompletion fills in %FLAGS% and its like from the table.
const bashScript = `# bash completion for %NAME%
_%FUNCTION%() {
	# bash splits words at equals signs and colons, so split the line at spaces here.
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
		[[ $COMP_WORDBREAKS != *=* ]] || prefix= # bash keeps the text before the equals sign
	fi
	case $of in
	'')
		if [[ $cur == -* ]]; then
			local flags=
			case $command in
%BYCOMMAND%			esac
			_%FUNCTION%_words "%FLAGS% $flags"
		elif [[ ! $command ]]; then
			_%FUNCTION%_words "%COMMANDS%"
		else
			case $command in
%WORDS%			esac
		fi
		;;
%VALUES%	esac
	COMPREPLY=("${COMPREPLY[@]/#/$prefix}")
}

_%FUNCTION%_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"); }

_%FUNCTION%_paths() {
	mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
	compopt -o filenames 2>/dev/null
}

complete -F _%FUNCTION% %NAME%
`

func bashCompletion(p Program) string {
	lister := func(k kind, choices []string) string {
		switch k {
		case oneOf:
			return `_%FUNCTION%_words "` + strings.Join(choices, " ") + `"`
		case aFile:
			return "_%FUNCTION%_paths -f"
		case aFolder:
			return "_%FUNCTION%_paths -d"
		case anInterface:
			return `_%FUNCTION%_words "$(ls /sys/class/net)"`
		}
		return ""
	}
	var flags, valued, names []string
	var values, words strings.Builder
	for _, f := range p.Flags {
		if len(f.Only) == 0 {
			flags = append(flags, f.Written())
		}
		if !f.isBool() {
			valued = append(valued, f.Name)
		}
		if list := lister(f.kind(), f.choices()); list != "" {
			fmt.Fprintf(&values, "\t%s) %s ;;\n", f.Name, list)
		}
	}
	var byCommand strings.Builder
	for _, c := range p.named() {
		names = append(names, c.Name)
		var own []string
		for _, f := range p.Flags {
			if slices.Contains(f.Only, c.Name) {
				own = append(own, f.Written())
			}
		}
		if len(own) > 0 {
			fmt.Fprintf(&byCommand, "\t\t\t%s) flags=\"%s\" ;;\n", c.Name, strings.Join(own, " "))
		}
		if list := lister(c.kind(), c.Choices); list != "" {
			fmt.Fprintf(&words, "\t\t\t%s) %s ;;\n", c.Name, list)
		}
	}
	return strings.NewReplacer(
		"%FLAGS%", strings.Join(flags, " "), "%BYCOMMAND%", byCommand.String(), "%COMMANDS%", strings.Join(names, " "),
		"%VALUED%", strings.Join(valued, " | "), "%VALUES%", values.String(), "%WORDS%", words.String(),
	).Replace(bashScript)
}
