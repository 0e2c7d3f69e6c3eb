# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Words, options and their values, as the help of this allot has them; tenants and devices of now.

_allot_help() { ARGP_HELP_FMT=opt-doc-col=80,rmargin=400 "$@" --help 2>/dev/null; }

# "SHORT LONG VALUE" for each option of a word; what is missing is a point.
_allot_options() {
	_allot_help "$@" |
		sed -nE 's/^ {2,6}((-.), )?(--[a-z-]+)(=([^ ]+))?.*/\2 \3 \5/p' |
		sed -E 's/^ /. /; s/ $/ ./'
}

# What stands for a value in the help: its candidates, beginning with what is typed.
_allot_values() {
	local allot=$1 value=$2 typed=$3 words
	case $value in
	NAME)
		words=$("$allot" ps --json 2>/dev/null |
			sed -n '/^  "tenants"/,/^  \]/s/^      "name": "\(.*\)",$/\1/p')
		;;
	GPU)
		words=$("$allot" topo --json 2>/dev/null | sed -n 's/^      "index": \(.*\),$/\1/p')
		;;
	DIR)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -d -- "$typed")
		return
		;;
	FILE)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$typed")
		return
		;;
	*\|FILE)
		words=${value%|FILE}
		compopt -o default # files where no word fits
		;;
	*\|*) words=$value ;;
	*) return ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "${words//[|$'\n']/ }" -- "$typed")
}

# The program that follows "--", and its own arguments.
_allot_program() {
	if declare -F _command_offset >/dev/null; then
		_command_offset "$1"
	elif ((COMP_CWORD == $1)); then
		mapfile -t COMPREPLY < <(compgen -c -- "$2")
	else
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$2")
	fi
}

_allot() {
	local allot=${COMP_WORDS[0]} word=${COMP_WORDS[1]} typed=${COMP_WORDS[COMP_CWORD]}
	local before=${COMP_WORDS[COMP_CWORD - 1]} options value='' head='' i
	local -a asked=("$allot" "$word")

	COMPREPLY=()
	if [[ ${allot##*/} == allotd ]]; then
		asked=("$allot") # which has no words
	elif ((COMP_CWORD == 1)) || [[ $word == help ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_allot_help "$allot" |
			sed -nE 's/^  allot ([a-z]+) .*/\1/p') --help --version" -- "$typed")
		return
	fi
	for ((i = 2; i < COMP_CWORD; i++)); do
		[[ ${COMP_WORDS[i]} != -- ]] || { _allot_program $((i + 1)) "$typed"; return; }
	done
	# "--mode=tu" comes as three words.
	if [[ $typed == "=" ]]; then
		typed=''
	elif [[ $before == "=" ]]; then
		before=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	options=$(_allot_options "${asked[@]}")
	if [[ $before == -?* ]]; then
		value=$(while read -r short long value; do
			[[ $before != "$short" && $before != "$long" ]] || echo "$long $value"
		done <<<"$options")
	fi
	if [[ -n $value && $value != *" ." ]]; then
		# Of several devices, the last is being typed.
		if [[ $value == "--gpu "* ]]; then
			value=GPU head=${typed%"${typed##*,}"}
		fi
		_allot_values "$allot" "${value#* }" "${typed#"$head"}"
		COMPREPLY=("${COMPREPLY[@]/#/$head}")
		return
	fi
	# "Usage: allot set [OPTION...] NAME"
	value=$(_allot_help "${asked[@]}" |
		sed -nE '1s/.*\.\.\.\] \[?([A-Z]+|[a-z]+(\|[a-z]+)+).*/\1/p')
	# "Usage: allot cdi [OPTION...] generate|list|remove [NAME...]", where one of them is there.
	if [[ $value == *\|* && " ${COMP_WORDS[*]:2:COMP_CWORD-2} " =~ \ (${value})\  ]]; then
		[[ $typed == -* ]] || return
	fi
	if [[ $typed == -* || -z $value ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(cut -d' ' -f2 <<<"$options")" -- "$typed")
	else
		_allot_values "$allot" "$value" "$typed"
	fi
}

complete -F _allot allot allotd
