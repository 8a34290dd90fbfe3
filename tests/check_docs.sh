#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_docs.sh [ROOT] : documents point at what is there.
#
# 1. Files that a document links to exist.
# 2. docs/GALLERY.md shows every picture of docs/gallery, and a document links to every table of docs/data.
# 3. A document ends with what it does not answer.
# 4. No line begins with ">" or "+": broken there by chance, a sentence becomes a quotation or a list.
# 5. What is said of the accuracy of kernels is what include/esscher/attend.h defines.
# 6. A key of docs/GLOSSARY.md, second column of its tables of words, is the key of a column somewhere in the source.
set -eu
cd "${1:-$(dirname "$0")/..}"
bad=$(mktemp)
trap 'rm -f "$bad"' EXIT

for page in *.md docs/*.md docs/data/*.md docs/dev/*.md; do
    folder=$(dirname "$page")
    grep -o '](\([^)#][^)]*\))' "$page" | sed 's/^](//; s/)$//; s/#.*//' | grep -v '^[a-z]*:' | sort -u |
        while IFS= read -r target; do
            [ -e "$folder/$target" ] || echo "$page: there is no $target" >>"$bad"
        done
done

for picture in docs/gallery/*.svg; do
    grep -qF "(gallery/${picture##*/})" docs/GALLERY.md || echo "docs/GALLERY.md does not show $picture" >>"$bad"
done

grep -nE '^ {0,3}[>+] ' ./*.md docs/*.md docs/data/*.md docs/dev/*.md | sed 's/$/ : a line must not begin so/' >>"$bad" || :

for table in docs/data/*.csv; do
    grep -qF "(data/${table##*/})" docs/*.md || echo "no document links to $table" >>"$bad"
done

# Each document says at its end what it does not answer; a glossary, a list and a gallery do not need to.
for page in docs/*.md; do
    case $page in */GLOSSARY.md | */REFERENCES.md | */GALLERY.md) continue ;; esac
    [ "$(grep '^## ' "$page" | tail -n 1)" = "## What this page does not answer" ] ||
        echo "$page does not end with what it does not answer" >>"$bad"
done

error() { sed -n "s/^#define ES_ATTEND_$1  *//p" include/esscher/attend.h; }
accuracy="below $(error F32_ERROR) while scores stay within 10 nats, below $(error F32_ERROR_130) within 130 nats"
for page in docs/PYTHON.md python/esscher/attention.py; do
    tr -s ' \n' ' ' <"$page" | grep -qF "$accuracy" || echo "$page does not say: $accuracy" >>"$bad"
done

# shellcheck disable=SC2016  # backquotes of Markdown
keys=$(awk -F'|' '/^\| word \| key \|/ { on = 1 } !/^\|/ { on = 0 } on { print $3 }' docs/GLOSSARY.md |
    grep -o '`[a-z_.0-9]*`' | tr -d '`' | sort -u)
[ -n "$keys" ] || echo "docs/GLOSSARY.md: no keys were found" >>"$bad"
# A column has its key in quotes, or is the member of a row: ES_COL(row, key, ES_FORMAT_REAL, ...).
for key in $keys; do
    grep -rqE "\"$key\"|(^|[ (,])$key, ES_FORMAT" src cli || echo "docs/GLOSSARY.md: nothing has the key $key" >>"$bad"
done

if [ -s "$bad" ]; then
    cat "$bad" >&2
    exit 1
fi
echo "$(echo "$keys" | wc -w) keys, $(find docs/gallery -name '*.svg' | wc -l) pictures"
