#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_standing.sh [ROOT] : what theory says is marked: proved, heuristic, numerical or cited.
#
# 1. A column of a study whose key or definition says that its number is theory's has a .standing. A key does by one of its
#    words (predicted, exact, limit, law, ...), a definition by a phrase ("infinitely many", "n to infinity", "heuristic").
#    Columns of texts and flags, and errors of such numbers, are not meant.
# 2. A study that has such columns marks what its help says, too: [proved], [heuristic], [numerical] or [cited].
# 3. Documents that teach or sum up have marks, and say what they mean.
set -eu
cd "${1:-$(dirname "$0")/..}"
find src/experiments -name '*.[ch]' | LC_ALL=C sort | LC_ALL=C awk '
function complain(text) {
    print file ": " text
    bad++
}
function is_theory(key, definition,    words, i, n) {
    # no prediction: the error of the stand-in for infinitely many tokens; of a claim, whose source stands beside it
    if (key ~ /(_error_limit|_off|_identity|_needs_n)$/ || (key ~ /_error$/ && key !~ /predicted/) || file ~ /experiments\/claims\//)
        return 0
    if (key ~ /^(predicted\.)?rate_(horizon|worst_case)$/ || key ~ /^freezing/)
        return 1
    n = split(key, words, /[^a-z]+/)
    for (i = 1; i <= n; i++)
        if (words[i] ~ /^(predicted|prediction|expected|exact|finite|law|limit|asymptotic|leading|theory|bound|sharp|series|continuum|heat)$/)
            return 1
    return definition ~ /heuristic|[nd] to infinity|infinitely many|closed form|asymptotic/
}
# One column: its key, and all that is written about it.
function check_column(key, one) {
    marked = one ~ /\.standing = ES_STANDING_[A-Z]/
    columns++
    theory += marked
    if (marked)
        has[study] = file
    if (!marked && one !~ /ES_FORMAT_(TEXT|FLAG|BYTES)/ && is_theory(key, one))
        complain("column \"" key "\" states what theory says and has no .standing")
}
# Initialisers {"key", ..., ES_FORMAT_X, ...} of one file, which is one line here.
function check_initialisers(text,    one, key) {
    while (match(text, /\{ *(key )?"[^"]*" *,[^{}]*ES_FORMAT_[A-Z]+[^{}]*\}/)) {
        one = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        key = one
        sub(/^\{ *(key )?"/, "", key)
        sub(/".*/, "", key)
        check_column(key, one)
    }
}
# The length of `text` up to the parenthesis that closes the one before it. Parentheses in strings do not count.
function closing(text,    i, c, depth, quoted) {
    depth = 1
    for (i = 1; i <= length(text) && depth > 0; i++) {
        c = substr(text, i, 1)
        if (c == "\\")
            i++
        else if (c == "\"")
            quoted = !quoted
        else if (!quoted)
            depth += (c == "(") - (c == ")")
    }
    return i - 1
}
# Members of rows: ES_COL(row, key, ES_FORMAT_X, ...), ES_COL_KEY(row, member, "key", ES_FORMAT_X, ...), and macros COL made
# of them. The key is the argument before the format.
function check_members(text,    one, key, size) {
    while (match(text, /COL[A-Z_]*\(/)) {
        text = substr(text, RSTART + RLENGTH)
        size = closing(substr(text, 1, 4000))
        one = substr(text, 1, size)
        if (one !~ /^[^"]*("[^"]*")?[^"]*ES_FORMAT_[A-Z]/)
            continue
        key = one
        sub(/, *ES_FORMAT_.*/, "", key)
        sub(/.*, */, "", key)
        gsub(/[" ]/, "", key)
        if (key !~ /^#/) # the macro itself
            check_column(key, one)
    }
}
{
    file = $0
    study = $0
    sub(/^src\/experiments\//, "", study) # the name of its directory
    sub(/\/.*/, "", study)
    all = ""
    while ((getline line < file) > 0) {
        sub(/\\$/, "", line)
        sub(/^ +/, " ", line)
        all = all line
    }
    close(file)
    check_initialisers(all)
    check_members(all)
    if (match(all, /\.about =.*\.params = /))
        about[study] = substr(all, RSTART, RLENGTH)
}
END {
    for (study in has) {
        file = has[study]
        if (about[study] !~ /\[(proved|heuristic|numerical|cited)\]/)
            complain("the help of \"" study "\" has no mark, its columns do")
    }
    n = split("README.md docs/THEORY-GUIDE.md docs/TRUST.md", names, " ")
    for (i = 1; i <= n; i++) {
        file = names[i]
        text = ""
        while ((getline line < file) > 0)
            text = text line "\n"
        close(file)
        if (text !~ /\[(P|H|proved|heuristic)\]/ || text !~ /THEORY\.md/)
            complain("marks nothing as proved or heuristic, or does not say where the marks are explained")
    }
    printf "%d columns, %d of them theory; %d without a mark\n", columns, theory, bad
    exit bad > 0 || theory == 0
}'
