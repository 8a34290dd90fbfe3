#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# format.sh: lists the C files that clang-format 14 would change.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

need clang-format-14 clang-format-14
install_missing
sh tests/check_format.sh
