# SPDX-License-Identifier: Apache-2.0
# Words, options and their values, as the help of this allot has them; tenants and devices of now.

function __allot_help
    ARGP_HELP_FMT=opt-doc-col=80,rmargin=400 $argv --help 2>/dev/null
end

# What stands for a value in the help: its candidates.
function __allot_values -a allot value typed
    switch $value
        case NAME
            $allot ps --json 2>/dev/null |
                sed -n '/^  "tenants"/,/^  \]/s/^      "name": "\(.*\)",$/\1/p'
        case GPU
            # Of several devices, the last is being typed.
            set -l head (string match -r '.*,' -- $typed)
            $allot topo --json 2>/dev/null |
                sed -n "s/^      \"index\": \(.*\),\$/$head\1/p"
        case DIR
            __fish_complete_directories $typed ''
        case FILE
            __fish_complete_path $typed
        case '*|FILE'
            string split '|' (string replace '|FILE' '' $value)
            __fish_complete_path $typed
        case '*|*'
            string split '|' $value
    end
end

function __allot_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    set -l asked $words[1..2]
    if string match -qr '(^|/)allotd$' -- $words[1]
        set asked $words[1] # which has no words
    else if test (count $words) = 1; or test "$words[2]" = help
        __allot_help $words[1] | sed -nE \
            '/^  allot [a-z]+ /{N;s/^  allot ([a-z]+) .*\n +(.*)/\1\t\2/p;}'
        return
    end
    # The program that follows "--", and its own arguments.
    if set -l end (contains -i -- -- $words[2..])
        set -l rest (commandline -ct)
        test (count $words) = (math $end + 1); or set rest $words[(math $end + 2)..] $typed
        complete -C (string join ' ' -- (string escape -- $rest[1..-2]) "$rest[-1]")
        return
    end
    set -l help (__allot_help $asked)
    set -l before $words[-1]
    set -l head ''
    if string match -q -- '--*=*' $typed
        set before (string replace -r '=.*' '' -- $typed)
        set head $before=
        set typed (string replace -r '^[^=]*=' '' -- $typed)
    end
    # -- SHORT, LONG, VALUE, what it is for
    set -l option '^ {2,6}((?:-.)?),? *(--[a-z-]+)((?:=\S+)?)\S*\s*(.*)'
    if string match -q -- '-*' $before
        for line in $help
            set -l m (string match -r --groups-only $option -- $line); or continue
            contains -- $before $m[1..2]; and test -n "$m[3]"; or continue
            test $m[2] != --gpu; or set m[3] =GPU
            printf '%s\n' $head(__allot_values $words[1] (string sub -s 2 -- $m[3]) "$typed")
            return
        end
    end
    set -l value (string match -r --groups-only '\.\.\.\] \[?([A-Z]+|[a-z]+(?:\|[a-z]+)+)' -- $help[1])
    # "Usage: allot cdi [OPTION...] generate|list|remove [NAME...]", where one of them is there.
    if string match -q -- '*|*' $value
        for word in $words[3..]
            contains -- $word (string split '|' $value); and set value WORDS
        end
    end
    if string match -q -- '-*' $typed; or test -z "$value"
        string replace -rf $option '$2\t$4' -- $help
    else
        __allot_values $words[1] $value "$typed"
    end
end

complete -c allotd -f -a '(__allot_complete)'
complete -c allot -f -a '(__allot_complete)'
