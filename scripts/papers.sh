#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# papers.sh: redraws the figures of docs/PAPERS.md from run files in build/papers.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

need_to_build
need nodejs node
install_missing
build release
sh docs/papers/make "$PWD/build/release/esscher" build/papers
