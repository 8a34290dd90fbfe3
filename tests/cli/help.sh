# SPDX-License-Identifier: Apache-2.0
# Help goes to stdout and ends with 0; without a command it goes to stderr and ends with 2.
esscher --help
esscher -h >again && esscher help >again2 && cmp again again2 && echo same
esscher help info
esscher info --help >again && esscher help info >again2 && cmp again again2 && echo same
# Every command that is listed has help, a usage line and an example, and belongs to a group of the list.
commands=$(esscher help --list | cut -f 1)
for command in $commands; do
    esscher help $command >text || exit 1
    [ "$(head -1 text | cut -d ' ' -f 1-3)" = "Usage: esscher $command" ] || echo "$command: no usage"
    grep -q '^Examples:' text || echo "$command: no examples"
    # Short help is one screen: at most 40 lines of 100 columns, with an example that fits.
    COLUMNS=100 esscher $command -h >text || exit 1
    [ "$(wc -l <text)" -le 40 ] || echo "$command -h: more than 40 lines"
    awk 'length($0) > 100 { print "too wide: " $0 }' text
    [ "$(sed -n '/^Examples:/,/^$/p' text | grep -c esscher)" -ge 1 ] || echo "$command -h: no example"
    grep -q "esscher help $command$" text || echo "$command -h: does not say where the rest is"
done
[ "$(echo "$commands" | wc -l)" -ge 9 ] && echo "all have help"
esscher help --list | cut -f 2 | uniq
esscher --version
esscher help help
COLUMNS=100 esscher measure -h
# `encode` names the eviction policies of each mode that other commands list from the registry.
all=$(COLUMNS=100 esscher help loss | tr -s ' \n' '  ')
own=$(COLUMNS=100 esscher help encode | sed -n '/--policy NAME/,/--keys K/p')
prompt=$(echo "$all" | sed 's/.*prompt: at its end (\([^)]*\)).*/\1/; s/,//g')
decode=$(echo "$all" | sed 's/.*decode: after each token (\([^)]*\)).*/\1/; s/,//g')
for name in $prompt; do
    echo "$own" | grep -qw "$name" || echo "help encode does not name $name"
done
for name in $decode; do
    echo "$own" | sed 's/.*(decode://' | grep -qw "$name" || echo "help encode: decode lacks $name"
done
echo "encode names $(echo $prompt | wc -w) policies, $(echo $decode | wc -w) of decode mode"
# Common options are explained once.
esscher help options
esscher help converge | grep -c -e '--threads N' -e '--max-memory SIZE'
ESSCHER_ISA=abacus esscher help >nothing && echo "help is given"
esscher >nothing
echo "rc=$? $(wc -c <nothing)"
