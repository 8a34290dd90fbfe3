#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_theory.sh [ROOT] : every formula that the code cites as "THEORY n.m (name)" is in docs/THEORY.md.
#
# Read are C, JavaScript and HTML below src, cli, include and web. A citation is the word THEORY (or THEORY.md), then, perhaps
# after a comma and "section" or "table", numbers joined by "," and "and", each perhaps with a name: "THEORY 4.2 (I1)",
# "THEORY.md, section 9", "THEORY.md, 6 and 4.2". A number is there if a heading of the document begins with it, a name in
# brackets if the text of that section has it in brackets. A citation may be broken over two lines of a comment.
set -eu
cd "${1:-$(dirname "$0")/..}"
[ -f docs/THEORY.md ] || { echo "FAIL: there is no docs/THEORY.md" >&2; exit 1; }
folders=
for folder in src cli include web; do [ -d "$folder" ] && folders="$folders $folder"; done
# shellcheck disable=SC2086  # a list of folders
find $folders \( -name node_modules -prune \) -o -type f \( -name '*.[ch]' -o -name '*.js' -o -name '*.html' \) -print |
    sort | awk '
function complain(text) {
    print file ":" line ": " text
    bad++
}
function read_document(    text, number) {
    while ((getline text < "docs/THEORY.md") > 0) {
        if (text ~ /^##+ [0-9]/) {
            number = text
            sub(/^#+ /, "", number)
            sub(/[^0-9.].*/, "", number)
            sub(/\.$/, "", number)
            if (number in there) {
                print "docs/THEORY.md: section " number " twice"
                bad++
            }
            there[number] = 1
            sections++
        }
        body[number] = body[number] text "\n"
        if (number ~ /\./) # what a subsection says, its section says
            body[substr(number, 1, index(number, ".") - 1)] = body[substr(number, 1, index(number, ".") - 1)] text "\n"
    }
}
# The citation that begins rest: numbers, each with what stands in brackets after it.
function check(rest,    number, name, found) {
    while (match(rest, /^[0-9]+(\.[0-9]+)*/)) {
        number = substr(rest, 1, RLENGTH)
        rest = substr(rest, RLENGTH + 1)
        citations++
        found++
        if (!(number in there))
            complain("THEORY " number " is cited, which docs/THEORY.md does not have")
        if (match(rest, /^,? (identity )?\(?[A-Z][0-9]+\)?/)) {
            name = substr(rest, 1, RLENGTH)
            rest = substr(rest, RLENGTH + 1)
            gsub(/[^A-Z0-9]/, "", name)
            if (!index(body[number], "(" name ")"))
                complain("THEORY " number " (" name ") is cited, but that section has no (" name ")")
        }
        if (!match(rest, /^(, | and |; )[0-9]/))
            break
        rest = substr(rest, RLENGTH)
    }
    return found
}
# THEORY_GUIDE, THEORY.H and other names are no citations; a bare "THEORY.md" that is followed by no number cites nothing.
function citations_of(text,    at, rest) {
    while (match(text, /THEORY(\.md)?/)) {
        at = RSTART
        rest = substr(text, RSTART + RLENGTH)
        before = at > 1 ? substr(text, at - 1, 1) : " "
        text = rest
        if (before ~ /[A-Za-z_-]/ || rest ~ /^[A-Za-z_-]/)
            continue
        sub(/^,? *(sections?|table)? */, "", rest)
        check(rest)
    }
}
BEGIN {
    read_document()
    if (!sections) {
        print "docs/THEORY.md has no numbered headings"
        bad++
    }
}
{
    file = $0
    files++
    line = 0
    held = ""
    while ((getline text < file) > 0) {
        line++
        if (held != "") { # the line before ended within a citation
            sub(/^[ \t]*(\*|\/\/)?[ \t]*/, "", text)
            text = held " " text
        }
        held = ""
        if (text ~ /THEORY(\.md)?,?( sections?| table)?[ \t]*$/ && text !~ /[A-Z_]THEORY/) {
            held = text
            continue
        }
        citations_of(text)
    }
    close(file)
}
END {
    printf "%d citations in %d files, %d sections; %d not there\n", citations, files, sections, bad
    exit bad > 0 || citations == 0
}'
