#!/bin/sh
# check_includes.sh [ROOT] : does every #include keep to the table of docs/ARCHITECTURE.md?
#
# Prints "FILE:LINE: ..." for each one that does not, and fails. ROOT is the repository, by default the one this
# script is in.
set -eu
cd "${1:-"$(dirname "$0")/.."}"

# The folders that exist, for rows of the table that name none of them.
folders=$(find src -mindepth 1 -maxdepth 1 -type d | sort | tr '\n' ' ')

find include src cli examples bench -name node_modules -prune -o -name '*.[ch]' -print 2>/dev/null | LC_ALL=C sort |
    LC_ALL=C awk -v folders="$folders" '
# Words of a table cell, without its backquotes, into the set set[key, word].
function words(cell, key, set,    i, n, w) {
    gsub(/`/, "", cell)
    n = split(cell, w, /[ ,]+/)
    for (i = 1; i <= n; i++)
        if (w[i] != "" && w[i] != "–")
            set[key, w[i]] = 1
}
function complain(message) {
    print file ":" line ": " message
    bad++
}
function read_table(path,    cells, inside) {
    while ((getline text < path) > 0) {
        if (text ~ /^\| *folder *\| *may include/)
            inside = 1
        else if (text !~ /^\|/)
            inside = 0
        else if (inside && text !~ /^\|-/) {
            split(text, cells, "|")
            folder = cells[2]
            gsub(/[` ]/, "", folder)
            row[folder] = 1
            rows++
            words(cells[3], folder, room)
            words(cells[4], folder, library)
        }
    }
    close(path)
    for (key in library) {
        split(key, pair, SUBSEP)
        if (pair[2] != "anything")
            owned[pair[2]] = 1
    }
}
# The row a file belongs to: src/base for src/base/error.c, cli for cli/main.c.
function folder_of(path,    parts) {
    split(path, parts, "/")
    return parts[1] == "src" || parts[1] == "include" ? parts[1] "/" parts[2] : parts[1]
}
function check_angle(name,    first, key) {
    first = name
    sub(/\/.*/, "", first)
    if (first == "esscher")
        return
    for (key in owned)
        if ((key ~ /\/$/ ? index(name, key) == 1 : name == key) && !((folder, key) in library))
            complain("<" name "> is not a library of " folder)
    if (("src/" first) in row)
        complain("<" name "> is a header of the inside; the public ones are <esscher/...>")
}
function check_quoted(name,    first, target) {
    first = name
    if (!sub(/\/.*/, "", first))
        first = ""
    if (name ~ /(^|\/)\.\.(\/|$)/ || name ~ /^\//)
        complain("\"" name "\" leaves its folder by a path")
    else if (folder ~ /^include\//)
        complain("\"" name "\" in a public header, which may include only <esscher/...>")
    else if (folder ~ /^src\//) {
        if (first == "")
            complain("\"" name "\" does not name its room, e.g. \"" substr(folder, 5) "/" name "\"")
        else if (("src/" first) != folder && !((folder, first) in room))
            complain("\"" name "\": " folder " may not include " first)
    } else {
        target = first == folder ? name : folder "/" name
        if ((getline text < target) < 0)
            complain("\"" name "\": " folder " may include only its own headers and <esscher/...>")
        close(target)
    }
}
function check_line(    name) {
    name = text
    sub(/^[ \t]*#[ \t]*include[ \t]*/, "", name)
    if (name ~ /^</) {
        gsub(/^<|>.*/, "", name)
        check_angle(name)
    } else if (name ~ /^"/) {
        sub(/^"/, "", name)
        sub(/".*/, "", name)
        check_quoted(name)
    } else
        complain("an #include that names no file cannot be checked")
    includes++
}
BEGIN {
    file = "docs/ARCHITECTURE.md"
    line = 1
    read_table(file)
    if (rows == 0)
        complain("no table of allowed includes")
    n = split(folders, exist, " ")
    for (i = 1; i <= n; i++) {
        if (!(exist[i] in row))
            complain("no row for " exist[i])
        there[exist[i]] = 1
    }
    for (folder in row)
        if (folder ~ /^src\// && !(folder in there))
            complain("a row for " folder ", which does not exist")
}
{
    file = $0
    folder = folder_of(file)
    if (!(folder in row)) {
        line = 1
        complain("no row for " folder)
        next
    }
    line = 0
    files++
    while ((getline text < file) > 0) {
        line++
        if (text ~ /^[ \t]*#[ \t]*include/)
            check_line()
    }
    close(file)
}
END {
    if (files == 0) {
        print "no files found"
        bad++
    }
    printf "%d includes in %d files, %d against the table\n", includes, files, bad
    exit bad > 0
}'
