# SPDX-License-Identifier: Apache-2.0
# Completion in bash knows commands, options and their letters, choices, claims, tables of a run file, and files.
esscher help --completion bash >complete.bash
esscher converge --n 10..100*3 --replicates 4 --quiet --out a.run >nothing
cat >ask.bash <<'ASK'
. ./complete.bash
ask() {
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    _esscher || : # nothing offered is a failure of compgen
    echo "${COMPREPLY[@]}"
}
ask esscher conv
ask esscher converge --la
ask esscher converge --law s
ask esscher converge --law = sph
ask esscher converge --replicates ""
ask esscher converge -d ""
ask esscher converge -o a.
ask esscher converge a
ask esscher claims --only hard
ask esscher export a.
ask esscher export a.run --table f
ask esscher export --js
ask esscher measure --q a.
ask esscher help hard
ask esscher help --completion ""
touch 'a name with spaces'
_words=("$(COMP_WORDS=(esscher export 'a n'); COMP_CWORD=2; _esscher; echo "${#COMPREPLY[@]}: ${COMPREPLY[0]}")")
echo "$_words"
ASK
bash -eu ask.bash
esscher help --completion tcsh
echo "rc=$?"
