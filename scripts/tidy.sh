#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tidy.sh [FILE...]: runs clang-tidy 14 over FILEs, by default over every compiled C file of src/ and cli/, with the checks of
# .clang-tidy. Fails if there is a finding.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

need_to_build
need clang-tidy-14 clang-tidy-14
install_missing
check_cmake
mkdir -p build
if ! cmake --preset release >build/release.log 2>&1; then # writes build/release/compile_commands.json
    cat build/release.log >&2
    exit 1
fi
if [ $# -eq 0 ]; then
    # A file may be compiled into several targets; it is checked once.
    # shellcheck disable=SC2046  # a list of words: no name has a space
    set -- $(sed -n "s,^ *\"file\": \"$PWD/\([^\"]*\)\".*,\1,p" build/release/compile_commands.json |
        grep -E '^(src|cli)/' | sort -u)
    [ $# -gt 100 ] || { say "only $# files found in build/release/compile_commands.json"; exit 1; }
fi
# clang-tidy counts suppressed warnings on stderr; findings are on stdout.
if ! printf '%s\n' "$@" | xargs -P "$(nproc)" -n 4 clang-tidy-14 -quiet -p build/release 2>build/tidy.log; then
    grep -v ' warnings* generated\.$' build/tidy.log >&2 || :
    say "clang-tidy found something, see above"
    exit 1
fi
say "clang-tidy found nothing in $# files"
