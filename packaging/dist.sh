#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# dist.sh OUT : builds the release OUT/esscher-VERSION.tar.xz from the last commit; the same bytes each time.
#
# It contains the files of git and web/bundle: the script of the report page, made from the npm packages that
# web/package-lock.json names by their hashes. So building a release does not need npm (cmake/page.cmake). The directory
# debian/ is left out; packaging/deb.sh adds it. Times are those of the commit, or SOURCE_DATE_EPOCH.
set -eu
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
fail() { echo "dist: $*" >&2; exit 1; }
[ -z "$(git status --porcelain)" ] || echo "dist: changes that are not committed are left out" >&2
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
version=$(git show HEAD:include/esscher/export.h | sed -n 's/^#define ES_VERSION_STRING *"\(.*\)"/\1/p')
name=esscher-$version
git archive --prefix="$name/" HEAD | tar x -C "$work"
rm -rf "${work:?}/$name/debian"

cmake -S "$work/$name" -B "$work/build" -G Ninja -DESSCHER_REPORT=ON -DBUILD_TESTING=OFF >"$work/log" 2>&1 &&
    cmake --build "$work/build" --target page_bundle >>"$work/log" 2>&1 || { cat "$work/log" >&2; fail "no bundle"; }
bundle=$work/$name/web/bundle
mkdir "$bundle"
cp "$work/build/web/page.js" "$work/build/web/stills.js" "$work/build/web/notices.txt" "$bundle"
cmake -DWEB="$work/$name/web" -DOUT="$bundle/made-from" -P "$work/$name/cmake/web_hash.cmake"

tar c -C "$work" --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mode=u+rw,go+r,go-w,a+X \
    --mtime="@$SOURCE_DATE_EPOCH" "$name" | xz -T1 -6 >"$out/$name.tar.xz.new"
mv "$out/$name.tar.xz.new" "$out/$name.tar.xz"
(cd "$out" && sha256sum "$name.tar.xz")
