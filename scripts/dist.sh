#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# dist.sh: builds the source release of the last commit twice, compares the two, and builds it without npm.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

need_to_build
need nodejs node
need npm npm
need git git
need xz-utils xz
install_missing
sh packaging/dist.sh build/dist
sh packaging/dist.sh build/dist/again
for tarball in build/dist/*.tar.xz; do
    cmp "$tarball" "build/dist/again/${tarball##*/}"
    sh packaging/check_dist.sh "$tarball"
done
