#!/bin/sh
# check_reproducible.sh [CC] : the same source gives the same bytes (BD03).
#
# libesscher.so is built twice, from two copies of the source in folders of different name and depth, with different umask,
# locale, time zone and number of jobs. The two files must be equal. ESSCHER_QUICK_TESTS skips it: it takes two builds.
set -eu
if [ -n "${ESSCHER_QUICK_TESTS-}" ]; then
    echo "skipped: ESSCHER_QUICK_TESTS is set"
    exit 77
fi
source=$(cd "$(dirname "$0")/.." && pwd)
export CC="${1:-cc}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

# build FOLDER JOBS
build() {
    mkdir -p "$1"
    cp -R "$source/CMakeLists.txt" "$source/cmake" "$source/include" "$source/src" "$source/web" "$source/LICENSE" "$source/README.md" "$1"
    cmake -S "$1" -B "$1/build" -G Ninja -DBUILD_TESTING=OFF >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    cmake --build "$1/build" --target esscher -j "$2" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
}

build "$work/a" 2
(umask 077 && LC_ALL=C.UTF-8 TZ=Pacific/Auckland SOURCE_DATE_EPOCH=1 build "$work/somewhere/else/altogether" 1)

first=$work/a/build/libesscher.so
second=$work/somewhere/else/altogether/build/libesscher.so
if ! cmp "$first" "$second"; then
    echo "FAIL: two builds of the same source differ; strings of one only:" >&2
    for lib in "$first" "$second"; do strings "$lib" | sort -u >"$lib.strings"; done
    comm -3 "$first.strings" "$second.strings" | head -20 >&2
    exit 1
fi
echo "equal: $(wc -c <"$first" | tr -d ' ') bytes"
