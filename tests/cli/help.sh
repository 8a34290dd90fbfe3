# Help goes to stdout and ends with 0; without a command it goes to stderr and ends with 2.
esscher --help
esscher -h >again && esscher help >again2 && cmp again again2 && echo same
esscher help info
esscher info --help >again && esscher help info >again2 && cmp again again2 && echo same
for command in measure converge hardmax limit bench export tokenize encode; do
    esscher help $command >text || exit 1
    head -1 text
    grep -c '^Examples:' text
done
esscher --version
esscher >nothing
echo "rc=$? $(wc -c <nothing)"
