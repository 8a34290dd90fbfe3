#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_blocks.sh SCRIPT ESSCHER MAKE_NPY MAKE_MODEL CC : every code block of the documents is run (run_blocks.py says how), or
# what is wrong in one is found (test_run_blocks.py).
set -eu
command -v python3 >/dev/null || { echo "skipped: there is no python3"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
exec python3 "$here/$1" "$here/../.." "$2" "$3" "$4" "$5" "$(dirname "$2")"
