#!/bin/sh
# check_includes_notices.sh : plants includes that the table forbids, one at a time, and expects check_includes.sh to
# name the file and the line. A check that cannot fail checks nothing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT INT TERM
mkdir "$copy/docs" "$copy/cli"
cp -R "$here/../include" "$here/../src" "$copy"
cp "$here/../docs/ARCHITECTURE.md" "$copy/docs"
failures=0

fail() {
    echo "FAIL: $*" >&2
    failures=$((failures + 1))
}

# plant FILE INCLUDE WORDS : the second line of FILE becomes INCLUDE; the complaint must contain WORDS.
plant() {
    mkdir -p "$(dirname "$copy/$1")"
    printf '/* planted */\n%s\n' "$2" >"$copy/$1"
    if said=$(sh "$here/check_includes.sh" "$copy"); then
        fail "$1 with $2 was accepted"
    elif ! printf '%s\n' "$said" | grep -F "$1:2: " | grep -qF "$3"; then
        fail "$1 with $2: expected '$1:2: ... $3', got: $said"
    fi
    rm "$copy/$1"
}

# allow FILE INCLUDE : no complaint.
allow() {
    mkdir -p "$(dirname "$copy/$1")"
    printf '/* planted */\n%s\n' "$2" >"$copy/$1"
    said=$(sh "$here/check_includes.sh" "$copy") || fail "$1 with $2 was refused: $said"
    rm "$copy/$1"
}

allow src/random/planted.c '#include "base/error.h"'
allow src/random/planted.c '#include <stdio.h>'
allow src/linalg/planted.c '#include <cblas.h>'
allow cli/planted.c '#include <esscher/attend.h>'
allow cli/planted.c '#include <jansson.h>'
echo >"$copy/cli/own.h"
allow cli/planted.c '#include "own.h"'
allow cli/planted.c '#include "cli/own.h"'

plant src/base/planted.c '#include "random/blocks.h"' 'may not include random'
plant src/random/planted.h '  #  include "attention/plan.h" /* why not */' 'may not include attention'
plant src/random/planted.c '#include "../base/error.h"' 'leaves its folder'
plant src/random/planted.c '#include "blocks.h"' 'does not name its room'
plant src/attention/planted.c '#include <cblas.h>' 'is not a library of src/attention'
plant src/stats/planted.c '#include <Random123/philox.h>' 'is not a library of src/stats'
plant src/stats/planted.c '#include WHATEVER' 'names no file'
plant cli/planted.c '#include "base/error.h"' 'may include only its own headers'
plant cli/planted.c '#include <base/error.h>' 'a header of the inside'
plant cli/planted.c '#include "../src/base/error.h"' 'leaves its folder'
plant examples/planted.c '#include "attention/plan.h"' 'may include only its own headers'
plant include/esscher/planted.h '#include "base/error.h"' 'in a public header'
plant include/esscher/planted.h '#include <base/error.h>' 'a header of the inside'

# A room without a row, a row without a room, no table at all.
mkdir "$copy/src/cellar"
if said=$(sh "$here/check_includes.sh" "$copy"); then fail "a room without a row was accepted"; fi
case $said in *"no row for src/cellar"*) ;; *) fail "a room without a row: $said" ;; esac
rmdir "$copy/src/cellar"
# shellcheck disable=SC2016  # backquotes of Markdown
sed 's,`src/stats`,`src/attic`,' "$here/../docs/ARCHITECTURE.md" >"$copy/docs/ARCHITECTURE.md"
if sh "$here/check_includes.sh" "$copy" >/dev/null; then fail "a row without a room was accepted"; fi
echo 'no table' >"$copy/docs/ARCHITECTURE.md"
if sh "$here/check_includes.sh" "$copy" >/dev/null; then fail "a missing table was accepted"; fi

[ "$failures" -eq 0 ] && echo "every planted include was noticed"
