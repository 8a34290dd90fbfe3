#!/bin/sh
# check_man.sh BUILD : every man page, written and generated, is clean in mandoc's eyes. Exit code 77 without mandoc.
set -eu
command -v mandoc >/dev/null 2>&1 || { echo "skipped: mandoc is not installed"; exit 77; }
cd "$(dirname "$0")/.."
pages=0
for page in man/*.1 "$1"/man/*.1; do
    mandoc -T lint -W warning "$page"
    pages=$((pages + 1))
done
[ "$pages" -ge 9 ]
echo "$pages pages are clean"
