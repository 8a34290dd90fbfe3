#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gallery.sh: redraws the figures of docs/GALLERY.md; those of a real model only if it can be downloaded.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
. scripts/lib_model.sh

need_to_build
need nodejs node
install_missing
build release
model=
fetch_model && model="demo/minilm demo/alice.txt"
# shellcheck disable=SC2086  # two words
sh docs/gallery/make "$PWD/build/release/esscher" build/gallery $model
