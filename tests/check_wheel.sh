#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_wheel.sh BUILD : pip makes a wheel with the library of the folder BUILD, without a network; its library needs and
# shows what it may; installed into an environment of its own it computes what NumPy computes; uninstalled it leaves nothing.
set -eu
build=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")/.." && pwd)
fail() { echo "FAIL: $*" >&2; exit 1; }

python=
for candidate in python3 /usr/bin/python3; do
    "$candidate" -c 'import setuptools, numpy, pip, venv, wheel, sys
sys.exit(int(setuptools.__version__.split(".")[0]) < 66)' 2>/dev/null && python=$candidate && break
done
if [ -z "$python" ]; then
    echo "skipped: no Python with NumPy, pip and setuptools (Debian packages python3-numpy, python3-pip, python3-setuptools," \
        "python3-wheel, python3-venv)"
    exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
mkdir -p "$work/tree/include/esscher"
cp -R "$source/pyproject.toml" "$source/setup.py" "$source/LICENSE" "$source/NOTICE" "$source/python" "$work/tree"
cp "$source/include/esscher/export.h" "$work/tree/include/esscher"
export PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CONFIG_FILE=/dev/null PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1
unset PYTHONPATH ESSCHER_LIBRARY

# quietly WORDS... : says what a command printed only if it fails.
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$*"; }; }
ESSCHER_PREBUILT=$build quietly "$python" -m pip wheel --no-build-isolation --no-deps -w "$work/wheels" "$work/tree"
wheel=$(echo "$work"/wheels/*.whl)
echo "${wheel##*/}: $(wc -c <"$wheel" | tr -d ' ') bytes"
"$python" "$source/packaging/check_wheel.py" "$wheel"

quietly "$python" -m venv --system-site-packages --without-pip "$work/venv"
(cd "$work/venv" && find . | sort) >"$work/before"
quietly "$work/venv/bin/python" -m pip install --no-deps "$wheel"
cd "$work"
OMP_WAIT_POLICY=passive "$work/venv/bin/python" - "$work/venv" <<'END_PYTHON'
import sys
import numpy as np
import esscher
from esscher._library import library_path

assert esscher.__file__.startswith(sys.argv[1]), esscher.__file__
assert library_path.startswith(sys.argv[1]), library_path  # the one in the wheel, not the system's
draw = np.random.default_rng(5)
q, k, v = (draw.standard_normal((rows, 16)) for rows in (40, 300, 300))
out = esscher.attend(q, k, v, scale=0.25, precision="f64")
scores = 0.25 * (q @ k.T)
weights = np.exp(scores - scores.max(axis=1, keepdims=True))
expected = weights @ v / weights.sum(axis=1, keepdims=True)
error = np.abs(out - expected).max()
# Sums of 300 terms of size about 1 in f64: 300 eps is 7e-14.
assert error < 1e-13, error
print(f"attend against NumPy: {error:.1e}")
END_PYTHON
quietly "$work/venv/bin/python" -m pip uninstall -y esscher
(cd "$work/venv" && find . | sort) >"$work/after"
diff "$work/before" "$work/after" || fail "uninstalling left (>) or took (<) these"
echo "uninstalled: nothing is left"
