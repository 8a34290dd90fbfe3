# SPDX-License-Identifier: Apache-2.0
# Completion in zsh offers what bash does. A zsh behind a pseudo-terminal is asked: what its completion adds, it notes.
command -v zsh >/dev/null || { echo "skipped: zsh is not installed (Debian package zsh)"; exit 77; }
mkdir functions
esscher help --completion zsh >functions/_esscher
zsh -n functions/_esscher
esscher converge --n 10..100*3 --replicates 4 --quiet --out a.run >nothing
cat >ask.zsh <<'ASK'
zmodload zsh/zpty
zpty asked "zsh -f -i"
# Until zsh has shown its prompt the terminal edits lines itself, and its own ^U would take the question away. So each question
# is typed behind a prompt, which is the one after READY-2.
ready() { zpty -w asked 'print READY-$((1+1))'; zpty -r asked out '*READY-2*ASK-ME*' }
zpty -w asked "PROMPT=ASK-ME; fpath=($PWD/functions \$fpath); autoload -Uz compinit; compinit -u -D"
zpty -w asked 'compadd() {
    local -a found
    [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]] || { builtin compadd -A found "$@"; print -rl -- $found >>found }
    builtin compadd "$@"
}'
ready
for line in "$@"; do
    rm -f found
    zpty -w -n asked "$line"$'\t\x15'
    ready
    print -r -- "$line:" $(sort -u found 2>/dev/null)
done
ASK
HOME=$PWD zsh -f ask.zsh "esscher conv" "esscher converge --la" "esscher converge --law s" "esscher converge -d " \
    "esscher converge -o a." "esscher converge a" "esscher claims --only hard" "esscher export a." \
    "esscher export a.run --table f" "esscher measure --q a." "esscher help hard" "esscher help --completion "
