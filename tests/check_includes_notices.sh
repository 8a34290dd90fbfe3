#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_includes_notices.sh : plants includes that the table forbids and faults of the table itself, one at a time, and
# expects check_includes.sh to name the file and the line. A check that cannot fail checks nothing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT INT TERM
mkdir -p "$copy/docs/dev" "$copy/cli"
cp -R "$here/../include" "$here/../src" "$copy"
cp "$here/../docs/dev/ARCHITECTURE.md" "$copy/docs/dev"
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
allow src/text/planted.c '#include <jansson.h>'
echo >"$copy/cli/own.h"
allow cli/planted.c '#include "own.h"'
allow cli/planted.c '#include "cli/own.h"'

plant src/base/planted.c '#include "random/blocks.h"' 'may not include random'
plant src/random/planted.h '  #  include "attention/cut.h" /* why not */' 'may not include attention'
plant src/random/planted.c '#include "../base/error.h"' 'leaves its directory'
plant src/random/planted.c '#include "blocks.h"' 'does not name its directory'
plant src/attention/planted.c '#include <cblas.h>' 'is not a library of src/attention'
plant src/stats/planted.c '#include <Random123/philox.h>' 'is not a library of src/stats'
plant src/stats/planted.c '#include WHATEVER' 'names no file'
plant cli/planted.c '#include "base/error.h"' 'may include only its own headers'
plant cli/planted.c '#include <base/error.h>' 'an internal header'
plant cli/planted.c '#include "../src/base/error.h"' 'leaves its directory'
plant examples/planted.c '#include "attention/cut.h"' 'may include only its own headers'
plant src/limit/planted.c '#include "theory/theory.h"' 'src/limit may not include theory'
plant src/policy/planted.c '#include <esscher/run.h>' 'src/policy may not include store'
plant src/theory/planted.h '#include "experiments/ball/ball.h"' 'src/theory may not include experiments'
plant src/experiments/ball/planted.c '#include "experiments/heat/heat.h"' 'ball may not include experiment heat'
plant src/experiments/kit/planted.c '#include "experiments/heat/heat.h"' 'src/experiments/kit may not include experiments'
allow src/experiments/ball/planted.c '#include "experiments/ball/ball.h"'
allow src/experiments/ball/planted.c '#include "experiments/kit/series.h"'
plant src/theory/planted.c '#include <esscher/nothing.h>' 'a public header of no directory'
plant cli/planted.c '#include <esscher/nothing.h>' 'a public header of no directory'

# A public header has the edges of its directory; here of risk.
# shellcheck disable=SC2016  # backquotes of Markdown
sed 's,`policy_risk` | `base`,`policy_risk` `planted` | `base`,' "$here/../docs/dev/ARCHITECTURE.md" >"$copy/docs/dev/ARCHITECTURE.md"
allow include/esscher/planted.h '#include <esscher/policy.h>'
plant include/esscher/planted.h '#include <esscher/run.h>' 'src/risk may not include store'
plant include/esscher/planted.h '#include "base/error.h"' 'in a public header'
plant include/esscher/planted.h '#include <base/error.h>' 'an internal header'
if said=$(sh "$here/check_includes.sh" "$copy"); then fail "a header that does not exist was accepted"; fi
case $said in *"planted.h does not exist"*) ;; *) fail "a header that does not exist: $said" ;; esac
cp "$here/../docs/dev/ARCHITECTURE.md" "$copy/docs/dev"
echo >"$copy/include/esscher/planted.h"
if said=$(sh "$here/check_includes.sh" "$copy"); then fail "a public header without a directory was accepted"; fi
case $said in *"planted.h:1: a public header of no directory"*) ;; *) fail "a header without a directory: $said" ;; esac
rm "$copy/include/esscher/planted.h"

# A cycle, made lawful by the table: the include itself is then fine, the table is not.
# shellcheck disable=SC2016  # backquotes of Markdown
sed '/^| `src\/limit`/s,`law` |,`law` `theory` |,' "$here/../docs/dev/ARCHITECTURE.md" >"$copy/docs/dev/ARCHITECTURE.md"
printf '/* planted */\n#include "theory/theory.h"\n' >"$copy/src/limit/planted.c"
if said=$(sh "$here/check_includes.sh" "$copy"); then fail "a cycle was accepted"; fi
case $said in *"a cycle: "*"limit -> theory"* | *"a cycle: "*"theory -> limit"*) ;; *) fail "a cycle: $said" ;; esac
case $said in *planted.c*) fail "an include that the table allows was refused: $said" ;; esac
# And without the include: an edge that no file uses.
rm "$copy/src/limit/planted.c"
said=$(sh "$here/check_includes.sh" "$copy") || true
case $said in *"no file of src/limit includes theory"*) ;; *) fail "an unused edge: $said" ;; esac
cp "$here/../docs/dev/ARCHITECTURE.md" "$copy/docs/dev"

# A directory without a row, a row without a directory, no table at all.
mkdir "$copy/src/cellar"
if said=$(sh "$here/check_includes.sh" "$copy"); then fail "a directory without a row was accepted"; fi
case $said in *"no row for src/cellar"*) ;; *) fail "a directory without a row: $said" ;; esac
rmdir "$copy/src/cellar"
# shellcheck disable=SC2016  # backquotes of Markdown
sed 's,`src/stats`,`src/attic`,' "$here/../docs/dev/ARCHITECTURE.md" >"$copy/docs/dev/ARCHITECTURE.md"
if sh "$here/check_includes.sh" "$copy" >/dev/null; then fail "a row without a directory was accepted"; fi
echo 'no table' >"$copy/docs/dev/ARCHITECTURE.md"
if sh "$here/check_includes.sh" "$copy" >/dev/null; then fail "a missing table was accepted"; fi

[ "$failures" -eq 0 ] && echo "every planted include was noticed"
