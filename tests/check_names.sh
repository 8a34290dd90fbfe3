#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_names.sh [ROOT] : does every es_* name mean one thing? Says which are defined in two files as a type or as a
# function, and which are a type here and a function or macro there. ROOT is the repository, by default the one this is in.
set -eu
cd "${1:-"$(dirname "$0")/.."}"
find include src cli -name node_modules -prune -o -name '*.[ch]' -print | LC_ALL=C sort | LC_ALL=C awk '
# `name` is defined in the file that is being read, as a `kind`.
function define(name, kind) {
    names[name] = 1
    if (where[kind, name] == "")
        where[kind, name] = file
    else if (where[kind, name] != file)
        complain(name ": a " kind " in " where[kind, name] " and in " file)
}
# typedef struct es_x es_x;
function is_opaque(line,    words) {
    split(line, words, /[ ;]/)
    return words[2] ~ /^(struct|union|enum)$/ && words[3] == words[4]
}
function complain(message) {
    print "FAIL: " message
    bad++
}
{
    file = $0
    while ((getline text < file) > 0) {
        # A struct has one body, typedef or not; that of an opaque type may be elsewhere than its typedef.
        if (match(text, /^(typedef )?(struct|union|enum) es_[a-z0-9_]+ *\{/)) {
            sub(/ *\{.*/, "", text)
            sub(/.* /, "", text)
            define(text, "type")
        } else if (match(text, /^typedef [^{]*[ (*]es_[a-z0-9_]+(;|\)?\()/) && !is_opaque(text)) {
            name = substr(text, RSTART, RLENGTH)
            sub(/(;|\)?\()$/, "", name)
            sub(/.*[ (*]/, "", name)
            define(name, "type")
        } else if (match(text, /^#define es_[a-z0-9_]+/)) {
            define(substr(text, 9, RLENGTH - 8), "macro")
        } else if (match(text, /^[A-Za-z][^(=]*[ *]es_[a-z0-9_]+\(/) && text !~ /^typedef/) {
            name = substr(text, RSTART, RLENGTH - 1)
            sub(/.*[ *]/, "", name)
            function_of[name] = file
            if (text ~ /^static/)
                define(name, "static function")
        }
    }
    close(file)
    files++
}
END {
    for (name in function_of)
        if (where["type", name] != "")
            complain(name ": a type in " where["type", name] " and a function in " function_of[name])
    for (name in names)
        if (where["macro", name] != "" && (where["type", name] != "" || name in function_of))
            complain(name ": a macro in " where["macro", name] ", and something else")
    if (files < 100)
        complain("only " files + 0 " files were found")
    if (bad)
        exit 1
    for (name in names)
        count++
    print count " names of types and macros, one meaning each"
}'
