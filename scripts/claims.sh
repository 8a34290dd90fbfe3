#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# claims.sh: checks the papers' statements at paper effort and writes docs/data/CLAIMS.md. Continues an interrupted run.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

need_to_build
install_missing
build release
run=build/claims.run
resume=
[ ! -e $run ] || resume=--resume
# Exit code 1 means that a claim failed; the table shows it.
build/release/esscher claims --effort paper --out $run $resume "$@" >/dev/null || [ $? -eq 1 ]
{
    cat <<END
# Statements of the papers, checked

Written by \`./do claims\`: $(build/release/esscher --version | head -1), \`esscher claims --effort paper\`. Statements are
in our words; the table of papers names their sources. Common assumptions are conclusions or practices that no available
paper states, so their failure refutes no paper. \`esscher claims --evidence\` shows every comparison. A true claim fails with
probability 0.2 %, so one run in 16 rejects one of the 32 that should hold.

END
    build/release/esscher claims --effort paper --out $run --resume --quiet --markdown || [ $? -eq 1 ]
    echo
    build/release/esscher claims --list --quiet --markdown
} >build/claims.md
mv build/claims.md docs/data/CLAIMS.md
