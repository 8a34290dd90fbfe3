#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_install.sh BUILD CC : what a stranger finds after `cmake --install` (BD04).
#
# The build is installed below a DESTDIR, and the tree is then moved elsewhere, as packagers do. From there the example
# is compiled through pkg-config and through find_package, and must print the table that its first comment shows.
set -eu
build=$1
cc=$2
source=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

fail() {
    echo "FAIL: $*" >&2
    exit 1
}

DESTDIR="$work/stage" cmake --install "$build" >"$work/log" 2>&1 || { cat "$work/log"; fail "cmake --install"; }
# What CMake's list of files leaves out would stay behind when they are removed by it.
(cd "$work/stage" && find . -type f -o -type l) | sed 's/^\.//' | sort >"$work/installed"
{ cat "$build/install_manifest.txt" && echo; } | sed '/^$/d' | sort | diff "$work/installed" - >&2 || fail "installed (<) and listed (>) differ"
for page in "$source"/docs/*.md "$source"/docs/data/*.* "$source"/docs/dev/*.md; do
    grep -q "/docs/${page#"$source"/docs/}\$" "$work/installed" || fail "no ${page#"$source"/} was installed"
done
pc=$(find "$work/stage" -name esscher.pc)
[ -n "$pc" ] || fail "no esscher.pc was installed"
include=$(dirname "$(dirname "$(find "$work/stage" -name attend.h)")")
mv "${include%/*}" "$work/moved"
rm -rf "$work/stage"
pc=$(find "$work/moved" -name esscher.pc)
lib=$(dirname "$(dirname "$pc")")
include=$work/moved/${include##*/}

echo "--- pkg-config, from where the tree was moved to"
export PKG_CONFIG_PATH="${pc%/*}"
# shellcheck disable=SC2046  # flags are words
"$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror "$source/examples/attend.c" $(pkg-config --cflags --libs esscher) -lm \
    -o "$work/by_pkg_config" || fail "the example does not compile through pkg-config"
LD_LIBRARY_PATH=$lib sh "$source/tests/check_example.sh" "$work/by_pkg_config" "$source/examples/attend.c"
case $(pkg-config --cflags --libs esscher) in
*"$work/moved"*) ;;
*) fail "pkg-config does not follow the tree: $(pkg-config --cflags --libs esscher)" ;;
esac

echo "--- find_package"
CC=$cc cmake -S "$source/examples" -B "$work/cmake" -G Ninja -DCMAKE_PREFIX_PATH="$work/moved" >"$work/log" 2>&1 ||
    { cat "$work/log"; fail "find_package"; }
cmake --build "$work/cmake" >"$work/log" 2>&1 || { cat "$work/log"; fail "building after find_package"; }
sh "$source/tests/check_example.sh" "$work/cmake/attend" "$source/examples/attend.c"
if cmake -S "$source/examples" -B "$work/cmake_none" -G Ninja -DCMAKE_PREFIX_PATH="$work/nowhere" >/dev/null 2>&1; then
    fail "find_package finds Esscher elsewhere, so the test above proves nothing"
fi

echo "--- each header by itself, twice, in C and in C++"
cxx=
for candidate in c++ g++ clang++; do
    command -v "$candidate" >/dev/null 2>&1 && cxx=$candidate && break
done
headers=0
for header in "$include"/esscher/*.h; do
    name=esscher/${header##*/}
    printf '#include <%s>\n#include <%s>\nextern int nothing;\n' "$name" "$name" >"$work/alone.c"
    "$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$include" "$work/alone.c" || fail "$name alone in C"
    [ -z "$cxx" ] || "$cxx" -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$include" -x c++ \
        "$work/alone.c" || fail "$name alone in C++"
    headers=$((headers + 1))
done
[ "$headers" -eq "$(find "$source/include" -name '*.h' | wc -l)" ] || fail "$headers headers were installed, not all"

shared=$lib/libesscher.so
if [ -e "$shared" ]; then
    echo "--- the shared library"
    if [ -n "$cxx" ]; then
        printf '#include <esscher/status.h>\nint main() { return es_version()[0] == 0; }\n' >"$work/linked.cpp"
        "$cxx" -I"$include" "$work/linked.cpp" -L"$lib" -lesscher -o "$work/linked" || fail "linking from C++"
        LD_LIBRARY_PATH=$lib "$work/linked" || fail "running from C++"
    fi
    nm -D --defined-only "$shared" | awk '{ print $3 }' | sort >"$work/exported"
    if grep -v '^es_' "$work/exported"; then fail "these symbols leave the library, too"; fi
    # functions end at their parenthesis, objects (ES_API extern ...) at a bracket or the semicolon
    cat "$include"/esscher/*.h | tr '\n' ' ' | grep -oE 'ES_API [^(;[]*[(;[]' | sed 's/[(;[]$//; s/.*[ *]//' | grep '^es_' |
        sort -u >"$work/declared"
    diff "$work/declared" "$work/exported" >&2 || fail "declared (<) and exported (>) differ"
    readelf -d "$shared" >"$work/dynamic"
    minor=$(sed -n 's/^#define ES_VERSION_STRING *"\([0-9]*\.[0-9]*\).*/\1/p' "$include/esscher/export.h")
    grep -qF "soname: [libesscher.so.$minor]" "$work/dynamic" || fail "the SONAME is not libesscher.so.$minor"
    if grep -iE 'NEEDED.*(mpi|pmi)' "$work/dynamic"; then fail "the library needs an MPI to start"; fi
    if grep -E 'R(UN)?PATH' "$work/dynamic"; then fail "a search path of this machine was installed"; fi
    if grep -qF "$source" "$shared"; then fail "the library contains the path of its source"; fi
    echo "$(wc -l <"$work/exported") functions, all es_*, all declared"
fi

program=$work/moved/bin/esscher
if [ -x "$program" ]; then
    echo "--- the program"
    "$program" info >"$work/log" || fail "esscher info"
    readelf -d "$program" | grep -iE 'NEEDED.*(mpi|pmi)' && fail "the program needs an MPI to start"
    for plugin in "$lib"/esscher/libesscher-mpi*.so; do
        [ -e "$plugin" ] || continue
        [ "$(nm -D --defined-only "$plugin" | awk '{ print $3 }')" = es_fabric_mpi ] || fail "more than one symbol leaves $plugin"
        if grep -qF "$source" "$plugin"; then fail "$plugin contains the path of its source"; fi
    done
    if [ -e "$lib/esscher/libesscher-mpi.so" ]; then # found from where the tree was moved to
        "$program" converge --dim 2 --n 50,100 --replicates 2 --scales 1 --mpi --csv >"$work/log" 2>&1 ||
            { cat "$work/log"; fail "esscher converge --mpi"; }
        grep -q '1 rank on 1 machine by' "$work/log" || fail "--mpi did not find its plugin"
    fi
fi
sh "$source/tests/check_search_paths.sh" "$work/moved" || fail "a library may come from the current directory"
for file in LICENSE NOTICE; do
    find "$work/moved" -name $file | grep -q . || fail "no $file was installed"
done
pebble=$work/moved/share/esscher/models/pebble
for file in README.md config.json model.safetensors tokenizer.json tokenizer_config.json alice.txt; do
    [ -f "$pebble/$file" ] || fail "no $file of pebble was installed"
done
if [ -x "$program" ]; then
    "$program" encode --model "$pebble" --text "$pebble/alice.txt" --quiet >"$work/log" || fail "esscher encode with pebble"
fi
echo "headers: $headers; everything works from where it was moved to"
[ -n "$cxx" ] || { echo "skipped: all of it passed, but there is no compiler for C++ (Debian package g++)"; exit 77; }
