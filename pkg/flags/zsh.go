package flags

import (
	"fmt"
	"strings"
)

// single returns s in single quotes, for zsh.
func single(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// zshScript is a template. zshCompletion fills in %FLAGS% and its like from the table.
const zshScript = `#compdef %NAME%
# zsh completion for %NAME%
_%FUNCTION%() {
	local curcontext=$curcontext state line ret=1 word of= command=
	typeset -A opt_args
	local -a commands=(
%COMMANDS%	)
	local -a flags=(
%FLAGS%	)
	for word in ${words[2,CURRENT-1]}; do
		if [[ -n $of ]]; then
			of=
		elif [[ $word != -* ]]; then
			command=$word
			break
		else
			case ${${word#-}#-} in
			%VALUED%) of=$word ;;
			esac
		fi
	done
	case $command in
%BYCOMMAND%	esac
	_arguments -C $flags '1: :->command' '2: :->word' && ret=0
	case $state in
	command) _describe -t commands command commands && ret=0 ;;
	word)
		case $line[1] in
%WORDS%		esac
		;;
	esac
	return ret
}

# zsh autoloads this file as the function, or a person sources it.
if [[ ${funcstack[1]} == _%FUNCTION% ]]; then
	_%FUNCTION% "$@"
else
	compdef _%FUNCTION% %NAME%
fi
`

// zshAction returns the action with which zsh completes a value of a kind.
func zshAction(k kind, choices []string) string {
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

// zshEscape escapes the characters that _arguments and _describe interpret.
func zshEscape(s string) string {
	return strings.NewReplacer(`\`, `\\`, ":", `\:`, "[", `\[`, "]", `\]`).Replace(s)
}

// zshSpec returns the flag's argument of _arguments, without quotes.
func (f Flag) zshSpec() string {
	spec := f.Written()
	if f.Many {
		spec = "*" + spec
	}
	values := zshEscape(f.Value) + ":" + zshAction(f.kind(), f.choices())
	if f.isBool() {
		return spec + "=-[" + zshEscape(f.about()) + "]::true or false:" + values[1:]
	}
	return spec + "=[" + zshEscape(f.about()) + "]:" + values
}

func zshCompletion(p Program) string {
	var commands, words, byCommand strings.Builder
	var common, valued []string
	own := make(map[string][]string) // by command
	for _, f := range p.Flags {
		spec := f.zshSpec()
		if !f.isBool() {
			valued = append(valued, f.Name)
		}
		if len(f.Only) == 0 {
			common = append(common, single(spec))
		}
		for _, command := range f.Only {
			own[command] = append(own[command], single(spec))
		}
	}
	list := func(indent string, specs []string) string {
		return indent + strings.Join(specs, "\n"+indent) + "\n"
	}
	for _, c := range p.named() {
		fmt.Fprintf(&commands, "\t\t%s\n", single(zshEscape(c.Name)+":"+c.About))
		if specs := own[c.Name]; specs != nil {
			fmt.Fprintf(&byCommand, "\t%s)\n\t\tflags+=(\n%s\t\t)\n\t\t;;\n", c.Name, list("\t\t\t", specs))
		}
		switch c.kind() {
		case aFile:
			fmt.Fprintf(&words, "\t\t%s) _files && ret=0 ;;\n", c.Name)
		case aFolder:
			fmt.Fprintf(&words, "\t\t%s) _files -/ && ret=0 ;;\n", c.Name)
		case oneOf:
			fmt.Fprintf(&words, "\t\t%s) compadd %s && ret=0 ;;\n", c.Name, strings.Join(c.Choices, " "))
		}
	}
	return strings.NewReplacer(
		"%COMMANDS%", commands.String(), "%FLAGS%", list("\t\t", common), "%BYCOMMAND%", byCommand.String(),
		"%VALUED%", strings.Join(valued, " | "), "%WORDS%", words.String(),
	).Replace(zshScript)
}
