# Help goes to stdout and ends with 0; without a command it goes to stderr and ends with 2.
esscher --help
esscher -h >again && esscher help >again2 && cmp again again2 && echo same
esscher help info
esscher info --help >again && esscher help info >again2 && cmp again again2 && echo same
# Every command that is listed has help, a usage line and an example.
commands=$(esscher --help | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p' | grep -v '^help$')
for command in $commands; do
    esscher help $command >text || exit 1
    [ "$(head -1 text | cut -d ' ' -f 1-3)" = "Usage: esscher $command" ] || echo "$command: no usage"
    grep -q '^Examples:' text || echo "$command: no examples"
done
[ "$(echo "$commands" | wc -l)" -ge 9 ] && echo "all have help"
esscher --version
esscher help help
esscher measure -h
ESSCHER_ISA=abacus esscher help >nothing && echo "help is given"
esscher >nothing
echo "rc=$? $(wc -c <nothing)"
