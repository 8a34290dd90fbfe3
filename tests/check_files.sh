#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_files.sh ESSCHER DOC LANGUAGE : run the examples of docs/FILES.md; LANGUAGE is python, r or sql.
#
# The first block of the document makes the files; the block in that language must then print the block `text` after it.
set -eu
esscher=$1
doc=$2
language=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
mkdir "$work/bin"
ln -s "$esscher" "$work/bin/esscher"
PATH=$work/bin:$PATH

skip() {
    echo "skipped: $*"
    exit 77
}
# block LANGUAGE : the first one.  after LANGUAGE : the block `text` that follows it.
block() { awk -v fence='```'"$1" '$0 == "```" && on { exit } on { print } $0 == fence { on = 1 }' "$doc"; }
after() { awk -v fence='```'"$1" '$0 == fence { seen = 1 } $0 == "```" && on { exit } on { print } seen && $0 == "```text" { on = 1 }' "$doc"; }

cd "$work"
block "$language" >snippet
after "$language" >promised
[ -s snippet ] && [ -s promised ] || { echo "FAIL: $doc has no example in $language"; exit 1; }
block sh >make
case $language in
python)
    run=
    for candidate in python3 /usr/bin/python3; do
        if "$candidate" -c 'import pandas' >/dev/null 2>&1; then run=$candidate; break; fi
    done
    [ -n "$run" ] || skip "there is no pandas (Debian package python3-pandas)"
    ;;
r)
    command -v Rscript >/dev/null || skip "there is no R (Debian package r-base-core)"
    run=Rscript
    ;;
sql)
    command -v sqlite3 >/dev/null || skip "there is no sqlite3 (Debian package sqlite3)"
    run=
    ;;
esac
sh ./make
if [ "$language" = sql ]; then
    { esscher export c.run --sql && cat snippet; } | sqlite3 >printed
else
    "$run" snippet >printed
fi
diff promised printed || { echo "FAIL: $doc promises (<) what is not printed (>)"; exit 1; }
