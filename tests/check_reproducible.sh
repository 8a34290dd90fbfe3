#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_reproducible.sh BUILD [CC] : the same source gives the same bytes (BD03).
#
# libesscher.so of the folder BUILD is built once more, from a copy of the source in a folder of another name and depth, with
# another umask, locale, time zone and number of jobs. The two files must be equal. ESSCHER_QUICK_TESTS skips it: it takes a
# whole build.
set -eu
if [ -n "${ESSCHER_QUICK_TESTS-}" ]; then
    echo "skipped: ESSCHER_QUICK_TESTS is set"
    exit 77
fi
source=$(cd "$(dirname "$0")/.." && pwd)
first=$1/libesscher.so
export CC="${2:-cc}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
[ -e "$first" ] || { echo "FAIL: there is no $first"; exit 1; }

# As BUILD was configured.
options=$(sed -n 's/^\(CMAKE_BUILD_TYPE\|ESSCHER_[A-Z_]*\):[A-Z]*=\(.*\)/-D\1=\2/p' "$1/CMakeCache.txt")
folder=$work/somewhere/else/altogether
mkdir -p "$folder"
cp -R "$source/CMakeLists.txt" "$source/cmake" "$source/include" "$source/src" "$source/web" "$source/LICENSE" "$source/README.md" "$folder"
(
    umask 077
    export LC_ALL=C.UTF-8 TZ=Pacific/Auckland SOURCE_DATE_EPOCH=1
    # shellcheck disable=SC2086  # a list of words is meant
    cmake -S "$folder" -B "$folder/build" -G Ninja $options -DBUILD_TESTING=OFF >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    cmake --build "$folder/build" --target esscher -j 1 >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
)
second=$folder/build/libesscher.so
if ! cmp "$first" "$second"; then
    echo "FAIL: two builds of the same source differ; strings of one only:" >&2
    strings "$first" | sort -u >"$work/first"
    strings "$second" | sort -u >"$work/second"
    comm -3 "$work/first" "$work/second" | head -20 >&2
    exit 1
fi
echo "equal: $(wc -c <"$first" | tr -d ' ') bytes"
