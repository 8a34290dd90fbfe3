#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_includes.sh [ROOT] : is the table of docs/dev/ARCHITECTURE.md the graph of who includes whom, without a cycle?
#
# Every public header belongs to a directory: <esscher/policy.h> in src/risk, or in a header of risk, is an edge from
# risk to policy like "policy/policy_row.h". Prints "FILE:LINE: ..." for each include that the table forbids, each edge
# of it that no file uses and each cycle, and fails. ROOT is the repository, by default the one this script is in.
#
# The row src/experiments holds for every src/experiments/NAME, and no experiment may include another.
set -eu
cd "${1:-"$(dirname "$0")/.."}"

# The directories that exist, to find rows of the table that name none of them.
folders=$(find src -mindepth 1 -maxdepth 1 -type d | sort | tr '\n' ' ')
[ ! -d src/experiments/kit ] || folders="$folders src/experiments/kit"

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
# The public headers of a row, for its folder.
function own_headers(cell,    i, n, w) {
    gsub(/`/, "", cell)
    n = split(cell, w, /[ ,]+/)
    for (i = 1; i <= n; i++)
        if (w[i] != "" && w[i] != "–") {
            if (w[i] in home)
                complain(w[i] ".h has two directories")
            home[w[i]] = folder
        }
}
# Depth first from `from`; a folder met again on the way down closes a cycle.
function walk(from, path,    key, pair, to) {
    state[from] = 1
    for (key in allowed) {
        split(key, pair, SUBSEP)
        to = "src/" pair[2]
        if (pair[1] != from || !(to in row))
            continue
        if (state[to] == 1) {
            line = row[from]
            complain("a cycle: " substr(path " -> " pair[2], index(path " -> " pair[2], pair[2])))
        } else if (!state[to])
            walk(to, path " -> " pair[2])
    }
    state[from] = 2
}
# An include of a header of `target` from `folder`, named as `said`.
function edge(target, said) {
    if ("src/" target == folder)
        return
    used[folder, target] = 1
    if (!((folder, target) in allowed) && !((folder, "public") in allowed && said ~ /^</))
        complain(said ": " folder " may not include " target)
}
function read_table(path,    cells, inside) {
    line = 0
    while ((getline text < path) > 0) {
        line++
        if (text ~ /^\| *directory *\| *public headers *\| *may include/)
            inside = 1
        else if (text !~ /^\|/)
            inside = 0
        else if (inside && text !~ /^\|-/) {
            split(text, cells, "|")
            folder = cells[2]
            gsub(/[` ]/, "", folder)
            row[folder] = line
            order[++rows] = folder
            own_headers(cells[3])
            words(cells[4], folder, allowed)
            words(cells[5], folder, library)
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
# All experiments have one row. A public header has the row of its directory.
function folder_of(path,    parts, name, depth) {
    depth = split(path, parts, "/")
    experiment = ""
    if (parts[1] == "src" && parts[2] == "experiments" && depth > 3) {
        experiment = parts[3]
        return experiment == "kit" ? "src/experiments/kit" : "src/experiments"
    }
    if (parts[1] != "include")
        return parts[1] == "src" ? parts[1] "/" parts[2] : parts[1]
    name = parts[3]
    sub(/\.h$/, "", name)
    seen[name] = 1
    return name in home ? home[name] : ""
}
function check_angle(name,    first, key, header) {
    first = name
    if (sub(/^esscher\//, "", first)) {
        header = first
        sub(/\.h$/, "", header)
        if (!(header in home))
            complain("<" name "> is a public header of no directory")
        else
            edge(substr(home[header], 5), "<" name ">")
        return
    }
    sub(/\/.*/, "", first)
    for (key in owned)
        if ((key ~ /\/$/ ? index(name, key) == 1 : name == key) && !((folder, key) in library))
            complain("<" name "> is not a library of " folder)
    if (("src/" first) in row)
        complain("<" name "> is an internal header; the public ones are <esscher/...>")
}
# An include of "experiments/NAME/..." : the kit, the experiment itself, or another experiment.
function check_experiment(name,    parts) {
    split(name, parts, "/")
    if (parts[2] == "kit")
        return "experiments/kit"
    if (folder == "src/experiments" && parts[2] != experiment)
        complain("\"" name "\": experiment " experiment " may not include experiment " parts[2])
    return "experiments"
}
function check_quoted(name,    first, target) {
    first = name
    if (!sub(/\/.*/, "", first))
        first = ""
    if (name ~ /(^|\/)\.\.(\/|$)/ || name ~ /^\//)
        complain("\"" name "\" leaves its directory by a path")
    else if (public)
        complain("\"" name "\" in a public header, which may include only <esscher/...>")
    else if (folder ~ /^src\//) {
        if (first == "")
            complain("\"" name "\" does not name its directory, e.g. \"" substr(folder, 5) "/" name "\"")
        else
            edge(first == "experiments" ? check_experiment(name) : first, "\"" name "\"")
    } else if (!((folder, "anything") in allowed)) {
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
    file = "docs/dev/ARCHITECTURE.md"
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
    for (i = 1; i <= rows; i++) {
        line = row[order[i]]
        if (order[i] ~ /^src\// && !(order[i] in there))
            complain("a row for " order[i] ", which does not exist")
        if (!state[order[i]])
            walk(order[i], substr(order[i], 5))
    }
}
{
    file = $0
    public = file ~ /^include\//
    folder = folder_of(file)
    line = 1
    if (folder == "") {
        complain("a public header of no directory")
        next
    } else if (!(folder in row)) {
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
    file = "docs/dev/ARCHITECTURE.md"
    for (key in allowed) {
        split(key, pair, SUBSEP)
        line = row[pair[1]]
        if (pair[1] ~ /^src\// && !((pair[1], pair[2]) in used))
            complain("no file of " pair[1] " includes " pair[2])
    }
    for (name in home) {
        line = row[home[name]]
        if (!(name in seen))
            complain(name ".h does not exist")
    }
    if (files == 0) {
        print "no files found"
        bad++
    }
    printf "%d includes in %d files, %d against the table\n", includes, files, bad
    exit bad > 0
}'
