#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_onnx.sh : does scripts/onnx_to_safetensors.mjs find the weights of a small ONNX file that onnx_writer.py wrote?
#
# The writer encodes protocol buffers by itself, in both ways that ONNX allows for lists and numbers, and holds the
# converted file against the numbers it began with. Files that are cut or changed must be refused, never half written.
set -eu
cd "$(dirname "$0")/.."
if ! command -v node >/dev/null 2>&1; then
    echo "skipped: no node (Debian package nodejs)"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
    echo "FAIL: $1" >&2
    exit 1
}
convert() { node scripts/onnx_to_safetensors.mjs "$@"; }

python3 tests/onnx_writer.py write "$folder/model.onnx"
convert "$folder/model.onnx" "$folder/model.safetensors"
python3 tests/onnx_writer.py compare "$folder/model.safetensors"

size=$(wc -c <"$folder/model.onnx")
for part in 1 2 3 4 5 6 7; do
    head -c $((size * part / 8)) "$folder/model.onnx" >"$folder/cut.onnx"
    if convert "$folder/cut.onnx" "$folder/cut.safetensors" 2>"$folder/error"; then fail "a file cut at $part/8 is taken"; fi
    grep -q "cut.onnx: " "$folder/error" || fail "the error does not name the file: $(cat "$folder/error")"
    [ ! -e "$folder/cut.safetensors" ] || fail "a file cut at $part/8 is converted in part"
done
python3 tests/onnx_writer.py write-double "$folder/double.onnx"
if convert "$folder/double.onnx" "$folder/double.safetensors" 2>"$folder/error"; then fail "a weight in f64 is taken"; fi
grep -q "type 11" "$folder/error" || fail "the error does not name the type: $(cat "$folder/error")"
if convert "$folder/absent.onnx" "$folder/out" 2>/dev/null; then fail "a file that does not exist is taken"; fi
