#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# demo.sh: builds Esscher, downloads a small encoder and a small decoder and runs the tour; options go to "esscher demo".
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
. scripts/lib_model.sh

need_to_build
install_missing
build release
models=
if fetch_model; then
    models="--model demo/minilm --text demo/alice.txt"
    if fetch_decoder; then models="$models --decoder demo/minimind"; fi
fi
# shellcheck disable=SC2086  # options are words
exec build/release/esscher demo --folder demo $models "$@"
