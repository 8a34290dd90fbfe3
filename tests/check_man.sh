#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_man.sh BUILD : man pages are made by the program and say all that it does: every command has a page and stands on
# that of the program, every option and letter that help knows is there, every exit code of cli/talk.h; and mandoc finds
# nothing to mend. Exit code 77 without mandoc.
set -eu
command -v mandoc >/dev/null 2>&1 || { echo "skipped: mandoc is not installed"; exit 77; }
cd "$(dirname "$0")/.."
build=$1
esscher=$build/esscher
failed=0
complain() {
    echo "$*"
    failed=1
}
# What a reader sees, without overstrikes.
shown() { mandoc -T utf8 -O width=200 "$1" | sed 's/.\x08//g; s/‐/-/g'; }

all=$(mktemp)
page=$(mktemp)
text=$(mktemp)
trap 'rm -f "$all" "$page" "$text"' EXIT
shown "$build/man/esscher.1" >"$all"
commands=$("$esscher" help --list | cut -f 1)
pages=1
for command in $commands; do
    [ -s "$build/man/esscher-$command.1" ] || { complain "$command: no page"; continue; }
    pages=$((pages + 1))
    grep -q "^ *esscher-$command(1)" "$all" || complain "esscher(1) does not list $command"
    shown "$build/man/esscher-$command.1" >"$page"
    # "  -m, --model MODEL", "      --text FILE": the options that the command explains itself
    "$esscher" help "$command" >"$text"
    options=$(sed -n '/^Common options/,$d; s/^  \(-[a-z]\)\{0,1\},\{0,1\} *\(--[A-Za-z0-9-]*\).*/\1,\2/p' "$text")
    for option in $options; do
        letter=${option%%,*}
        name=${option#*,}
        grep -q "^ *${letter:+$letter, }$name\( \|\$\)" "$page" || complain "$command: no ${letter:+$letter, }$name in its page"
    done
    # Common options are named in the page of the command and explained in esscher(1).
    common=$(sed -n '/^Common options/,/^$/p' "$text" | grep -o -e '--[a-z][a-z-]*' || :)
    [ -n "$options$common" ] || complain "$command: help lists no options"
    for name in $common; do
        grep -q -e "$name\b" "$page" || complain "$command: its page does not name $name"
        grep -q "^ *\(-[a-z], \)\{0,1\}$name\( \|\$\)" "$all" || complain "esscher(1) does not explain $name"
    done
done
for code in $(sed -n 's/^ *CLI_[A-Z_]* = \([0-9]*\).*/\1/p' cli/talk.h); do
    grep -q "^ *$code  *[a-z]" "$all" || complain "esscher(1) does not say what exit code $code means"
done
grep -q '^ *-t, --threads N' "$all" || complain "esscher(1) has no short options"
for file in "$build"/man/*.1; do
    mandoc -T lint -W warning "$file" || complain "$file: see above"
done
[ "$pages" -ge 20 ] || complain "only $pages pages"
[ $failed = 0 ] && echo "$pages pages are complete and clean"
exit $failed
