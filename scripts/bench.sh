#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bench.sh: compares speed with NumPy, PyTorch and onnxruntime; options go to bench/run.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

need_to_build
install_missing
build release
sh bench/run "$@"
