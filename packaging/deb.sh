#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# deb.sh OUT : builds Debian packages of the last commit in OUT and runs lintian.
#
# The source package is the release (dist.sh) and the directory debian/.
set -eu
cd "$(dirname "$0")/.."
rm -rf "$1"
mkdir -p "$1"
out=$(cd "$1" && pwd)
sh packaging/dist.sh "$out"
tarball=$(echo "$out"/esscher-*.tar.xz)
version=${tarball##*/esscher-}
version=${version%.tar.xz}
mv "$tarball" "$out/esscher_$version.orig.tar.xz"
tar xf "$out/esscher_$version.orig.tar.xz" -C "$out"
git archive HEAD debian | tar x -C "$out/esscher-$version"
# Debian's programs only: another Python before them on PATH has none of Debian's modules.
(cd "$out/esscher-$version" && PATH=/usr/sbin:/usr/bin:/sbin:/bin dpkg-buildpackage -us -uc) >"$out/log" 2>&1 || { tail -50 "$out/log" >&2; exit 1; }
lintian --allow-root --fail-on error "$out"/*.changes
for deb in "$out"/*.deb; do
    case $deb in *-dbgsym_*) ;; *) dpkg-deb -x "$deb" "$out/unpacked" ;; esac
done
sh tests/check_search_paths.sh "$out/unpacked"
rm -rf "$out/unpacked"
(cd "$out" && ls -l -- *.deb | awk '{ print $5, $9 }')
