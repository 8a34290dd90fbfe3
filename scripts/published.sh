#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# published.sh: regenerates every document that quotes the program. Continues an interrupted run.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
. scripts/lib_model.sh

need_to_build
need python3 python3
need python3-numpy '/usr/lib/python3*/*-packages/numpy'
need nodejs node
install_missing
build release
fetch_model || exit 1
fetch_decoder || exit 1
for document in claims calibration gallery; do sh scripts/$document.sh; done
mkdir -p build/transcript
for folder in demo models examples; do ln -sfn "$PWD/$folder" build/transcript/$folder; done
python=python3
python3 -c 'import numpy' 2>/dev/null || python=/usr/bin/python3 # the one that apt installs NumPy for
$python docs/transcript/make.py . build/release/esscher build/transcript
version=$(build/release/esscher --version | head -1)
sed -i "s/(esscher [0-9.]*)/($version)/" docs/GALLERY.md
