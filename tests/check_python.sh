#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_python.sh NAME LIBRARY PROGRAM : python/tests/test_NAME.py against the library of a build.
set -eu
name=$1
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/tests/find_python.sh"
find_python numpy python3-numpy
export ESSCHER_LIBRARY="$2" ESSCHER_PROGRAM="$3" PYTHONPATH="$here/python" PYTHONDONTWRITEBYTECODE=1
exec "$python" "$here/python/tests/test_$name.py"
