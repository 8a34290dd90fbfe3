#!/bin/sh
# check_includes_notices.sh : plants includes that the table forbids and faults of the table itself, one at a time, and
# expects check_includes.sh to name the file and the line. A check that cannot fail checks nothing.
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
allow src/model/planted.c '#include <jansson.h>'
echo >"$copy/cli/own.h"
allow cli/planted.c '#include "own.h"'
allow cli/planted.c '#include "cli/own.h"'

plant src/base/planted.c '#include "random/blocks.h"' 'may not include random'
plant src/random/planted.h '  #  include "attention/cut.h" /* why not */' 'may not include attention'
plant src/random/planted.c '#include "../base/error.h"' 'leaves its folder'
plant src/random/planted.c '#include "blocks.h"' 'does not name its room'
plant src/attention/planted.c '#include <cblas.h>' 'is not a library of src/attention'
plant src/stats/planted.c '#include <Random123/philox.h>' 'is not a library of src/stats'
plant src/stats/planted.c '#include WHATEVER' 'names no file'
plant cli/planted.c '#include "base/error.h"' 'may include only its own headers'
plant cli/planted.c '#include <base/error.h>' 'a header of the inside'
plant cli/planted.c '#include "../src/base/error.h"' 'leaves its folder'
plant examples/planted.c '#include "attention/cut.h"' 'may include only its own headers'
plant src/limit/planted.c '#include theory/theory.h' 'src/limit may not include theory'
plant src/theory/planted.h '#include experiments/ball/ball.h' 'src/theory may not include lab'
plant src/theory/planted.c '#include <esscher/nothing.h>' 'a header of no room'
plant cli/planted.c '#include <esscher/nothing.h>' 'a header of no room'

# A public header has the edges of its room; here of limit.
# shellcheck disable=SC2016  # backquotes of Markdown
sed 's,`limit` | `base`,`limit` `planted` | `base`,' "$here/../docs/ARCHITECTURE.md" >"$copy/docs/ARCHITECTURE.md"
allow include/esscher/planted.h '#include law/law.h'
plant include/esscher/planted.h '#include theory/theory.h' 'src/limit may not include theory'
plant include/esscher/planted.h '#include "base/error.h"' 'in a public header'
plant include/esscher/planted.h '#include <base/error.h>' 'a header of the inside'
if said=$(sh "$here/check_includes.sh" "$copy"); then fail "a header that does not exist was accepted"; fi
case $said in *"planted.h does not exist"*) ;; *) fail "a header that does not exist: $said" ;; esac
cp "$here/../docs/ARCHITECTURE.md" "$copy/docs"
echo >"$copy/include/esscher/planted.h"
if said=$(sh "$here/check_includes.sh" "$copy"); then fail "a public header without a room was accepted"; fi
case $said in *"planted.h:1: a public header of no room"*) ;; *) fail "a header without a room: $said" ;; esac
rm "$copy/include/esscher/planted.h"

# A cycle, made lawful by the table: the include itself is then fine, the table is not.
# shellcheck disable=SC2016  # backquotes of Markdown
sed '/^| `src\/limit`/s,`law` |,`law` `theory` |,' "$here/../docs/ARCHITECTURE.md" >"$copy/docs/ARCHITECTURE.md"
printf '/* planted */\n#include theory/theory.h\n' >"$copy/src/limit/planted.c"
if said=$(sh "$here/check_includes.sh" "$copy"); then fail "a cycle was accepted"; fi
case $said in *"a cycle: "*"limit -> theory"* | *"a cycle: "*"theory -> limit"*) ;; *) fail "a cycle: $said" ;; esac
case $said in *planted.c*) fail "an include that the table allows was refused: $said" ;; esac
# And without the include: an edge that nobody uses.
rm "$copy/src/limit/planted.c"
said=$(sh "$here/check_includes.sh" "$copy") || true
case $said in *"nobody in src/limit includes theory"*) ;; *) fail "an unused edge: $said" ;; esac
cp "$here/../docs/ARCHITECTURE.md" "$copy/docs"

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
