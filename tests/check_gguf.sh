#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_gguf.sh ESSCHER : golden checkpoints of every family, written as GGUF by a program of their own (tests/golden/gguf/convert.py),
# have the golden hidden states and logits.
set -eu
tests=$(cd "${0%/*}" && pwd)
. "$tests/find_python.sh"
find_python numpy python3-numpy
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
PYTHONDONTWRITEBYTECODE=1 "$python" "$tests/golden/gguf/compare.py" "$1" "$tests/golden" "$work"
