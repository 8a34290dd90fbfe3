#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_search_paths.sh FOLDER [CC PROGRAM] : no binary in FOLDER searches the current directory for its libraries.
#
# Fails for every RPATH or RUNPATH element that is empty (the loader then takes the current directory) or that starts
# neither with / nor with $ORIGIN. With CC and PROGRAM, also runs PROGRAM in a directory that holds a false library under
# the name of each library that PROGRAM and libesscher ask for. EMULATOR runs programs of another CPU.
set -eu
folder=$(cd "$1" && pwd)
fail() { echo "FAIL: $*" >&2; exit 1; }
command -v readelf >/dev/null || { echo "skipped: no readelf (Debian package binutils)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

# CMakeFiles has CMake's own trials of the compiler, web the programs that npm fetched.
find "$folder" \( -name CMakeFiles -o -path "$folder/web" \) -prune -o -type f \( -perm -u+x -o -name '*.so*' \) -print |
    while read -r file; do
        readelf -dW "$file" 2>/dev/null | sed -n "s|^.*R\(UN\)\{0,1\}PATH).*\[\(.*\)\]\$|\2|p" >"$work/paths"
        readelf -hW "$file" >/dev/null 2>&1 && echo "$file" >>"$work/binaries"
        while read -r path; do
            case :$path: in
            *::*) echo "$file: empty element in \"$path\"" ;;
            esac
            # shellcheck disable=SC2016  # the loader expands $ORIGIN
            echo "$path" | tr : '\n' | grep -v -e '^/' -e '^\$ORIGIN$' -e '^\$ORIGIN/' -e '^$' |
                sed "s|.*|$file: relative element \"&\" in \"$path\"|" || :
        done <"$work/paths"
    done >"$work/wrong"
[ -s "$work/binaries" ] || fail "no binaries in $folder"
if [ -s "$work/wrong" ]; then
    sed 's/^/FAIL: /' "$work/wrong" >&2
    exit 1
fi
echo "$(wc -l <"$work/binaries" | tr -d ' ') binaries, none searches the current directory"
[ $# -gt 1 ] || exit 0

cc=$2
program=$3
mkdir "$work/planted"
echo '#include <stdlib.h>
__attribute__((constructor)) static void planted(void) { _Exit(99); }' >"$work/planted.c"
"$cc" -shared -fPIC "$work/planted.c" -o "$work/planted.so" || fail "$cc"
for file in "$program" "$folder"/libesscher.so; do
    [ ! -e "$file" ] || readelf -dW "$file" | sed -n 's/^.*(NEEDED).*\[\(.*\)\]$/\1/p'
done | grep -v -e '^libc\.' -e '^libm\.' -e '^ld-' | sort -u >"$work/needed" # a false libc runs nothing at all
while read -r name; do
    cp "$work/planted.so" "$work/planted/$name"
done <"$work/needed"
cd "$work/planted"
# shellcheck disable=SC2086  # a command with its options
${EMULATOR-} "$program" --version >"$work/said" 2>&1 || { cat "$work/said" >&2; fail "a library of the current directory ran"; }
grep -q '^esscher ' "$work/said" || fail "$program --version"
echo "$(wc -l <"$work/needed" | tr -d ' ') false libraries in the current directory, none was loaded"
