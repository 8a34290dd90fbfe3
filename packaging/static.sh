#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# static.sh STATIC DYNAMIC : checks that the static program needs no library and prints what the usual one prints.
#
# As root, also runs the static program in an otherwise empty directory.
set -eu
static=$1
dynamic=$2
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
fail() { echo "FAIL: $*" >&2; exit 1; }

if readelf -d "$static" | grep NEEDED; then fail "$static needs these libraries"; fi
if readelf -d "$static" | grep -E 'R(UN)?PATH'; then fail "$static has a search path"; fi
if readelf -l "$static" | grep -i 'interpreter'; then fail "$static asks for an interpreter"; fi

# same WORDS... : both print the same bytes.
same() {
    "$dynamic" "$@" >"$work/dynamic" || fail "esscher $*"
    "$static" "$@" >"$work/static" || fail "static esscher $*"
    cmp "$work/dynamic" "$work/static" || fail "esscher $* differs"
    echo "same $(wc -c <"$work/static" | tr -d ' ') bytes: esscher $*"
}
cd "$root"
same --version
same converge --dim 6 --n 100..3000*4 --replicates 4 --scales 0.5,1 --csv --quiet
same encode --model models/pebble --text models/pebble/alice.txt --quiet
same ball --dim 4 --n 100,300 --replicates 2 --csv --quiet
if "$static" converge --dim 2 --n 50,100 --replicates 2 --scales 1 --mpi --quiet >"$work/log" 2>&1; then
    fail "the static program speaks MPI"
fi
grep -q 'this program is static' "$work/log" || { cat "$work/log"; fail "--mpi does not say why it cannot"; }

if [ "$(id -u)" = 0 ]; then
    mkdir "$work/empty"
    cp "$static" "$work/empty/esscher"
    chroot "$work/empty" /esscher converge --dim 6 --n 100..3000*4 --replicates 4 --scales 0.5,1 --csv --quiet \
        >"$work/static" || fail "in an empty folder"
    "$dynamic" converge --dim 6 --n 100..3000*4 --replicates 4 --scales 0.5,1 --csv --quiet | cmp - "$work/static" ||
        fail "in an empty folder it differs"
    echo "same in a folder with nothing but the program"
fi
