#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_dist.sh TARBALL : checks that a release builds without npm, and that its reports have figures.
#
# A PATH with links to all other programs hides Node.js and npm.
set -eu
tarball=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
fail() { echo "FAIL: $*" >&2; exit 1; }

mkdir "$work/bin"
echo "$PATH" | tr : '\n' | while read -r folder; do
    for program in "$folder"/*; do
        case ${program##*/} in
        node | nodejs | npm | npx | corepack) ;;
        *) [ -e "$work/bin/${program##*/}" ] || ln -s "$program" "$work/bin/" ;;
        esac
    done
done
PATH=$work/bin
export PATH
if command -v node || command -v npm; then fail "npm is not hidden"; fi

tar xf "$tarball" -C "$work"
cd "$work"/esscher-*
cmake -S . -B build -G Ninja -DBUILD_TESTING=OFF -DESSCHER_REPORT=ON -DESSCHER_MPI=OFF >"$work/log" 2>&1 &&
    cmake --build build >>"$work/log" 2>&1 || { cat "$work/log" >&2; fail "a release does not build"; }
build/esscher converge --dim 4 --n 100..2000*5 --replicates 4 --scales 1 --out "$work/x.run" --quiet >/dev/null
build/esscher report "$work/x.run" -o "$work/x.html" --quiet >/dev/null
grep -q 'vega' "$work/x.html" || fail "the report has no figures"
echo "built without npm; the report has $(wc -c <"$work/x.html" | tr -d ' ') bytes, figures included"

# A change of web/ must not leave the old page in place.
echo '// changed' >>web/page.js
if cmake -S . -B build -DESSCHER_REPORT=ON >"$work/log" 2>&1; then fail "a stale bundle is used"; fi
grep -q 'web/bundle was made from other files' "$work/log" || { cat "$work/log" >&2; fail "for another reason"; }
