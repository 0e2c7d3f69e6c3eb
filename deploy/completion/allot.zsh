#compdef allot allotd
# SPDX-License-Identifier: Apache-2.0
# Words, options and their values, as the help of this allot has them; tenants and devices of now.

_allot_help() {
	ARGP_HELP_FMT=opt-doc-col=80,rmargin=400 _call_program help "${(q)@}" --help 2>/dev/null
}

# What stands for a value in the help.
_allot_values() {
	local -a found
	case $2 in
	NAME)
		found=(${(f)"$(_call_program tenants ${(q)1} ps --json 2>/dev/null |
			sed -n '/^  "tenants"/,/^  \]/s/^      "name": "\(.*\)",$/\1/p')"})
		_wanted tenants expl tenant compadd -a found
		;;
	GPU)
		found=(${(f)"$(_call_program devices ${(q)1} topo --json 2>/dev/null |
			sed -n 's/^      "index": \(.*\),$/\1/p')"})
		compset -P '*,'
		_wanted devices expl device compadd -a found
		;;
	DIR) _files -/ ;;
	FILE) _files ;;
	*\|*)
		found=(${${(s:|:)2}:#FILE})
		_wanted values expl value compadd -a found
		[[ $2 != *\|FILE ]] || _files
		;;
	COMMAND) _normal ;;
	*) _message "${(L)2}" ;;
	esac
}

_allot() {
	local allot=$words[1] word=$words[2] line usage value expl
	local -a found match mbegin mend actions before
	local -A values

	if [[ $allot:t == allotd ]]; then
		word= # it has none
	elif ((CURRENT == 2)) || [[ $word == help ]]; then
		found=(${(f)"$(_allot_help $allot | sed -nE \
			'/^  allot [a-z]+ /{N;s/^  allot ([a-z]+) .*\n +(.*)/\1:\2/p;}')"})
		_describe -t commands word found
		found=(--help --version)
		_wanted options expl option compadd -a found
		return
	fi
	# The program that follows "--", and its own arguments.
	local -i end=${words[(i)--]}
	if ((end < CURRENT)); then
		shift end words
		((CURRENT -= end))
		_normal
		return
	fi
	for line in ${(f)"$(_allot_help $allot $word)"}; do
		if [[ $line == (#b)Usage:*\.\.\.\]\ ([^ ]#)* ]]; then
			usage=$match[1]
			[[ $usage == *\|* ]] || usage=${usage//[^A-Z]/}
		elif [[ $line == (#b)\ (#c2,6)(-?,\ |)(--[a-z-]##)([^ ]#)\ #(*) ]]; then
			found+="$match[2]:$match[4]"
			[[ $match[3] != '='* ]] || values[$match[2]]=${match[3]#'='}
			[[ $match[3] != '='* || -z $match[1] ]] || values[${match[1]%,*}]=${match[3]#'='}
		fi
	done
	# "Usage: allot cdi [OPTION...] generate|list|remove [NAME...]", where one of them is there.
	if [[ $usage == *\|* ]]; then
		actions=(${(s:|:)usage})
		before=(${words[3,CURRENT-1]})
		((${#${before:*actions}} == 0)) || usage=WORDS
	fi
	line=${words[CURRENT-1]}
	[[ $PREFIX != --*=* ]] || { line=${PREFIX%%=*}; compset -P '*='; }
	value=$values[$line]
	[[ $line != (-g|--gpu) || -z $value ]] || value=GPU
	if [[ -n $value ]]; then
		_allot_values $allot $value
	elif [[ $PREFIX == -* || -z $usage ]]; then
		_describe -t options option found
	else
		_allot_values $allot $usage
	fi
}

_allot "$@"
