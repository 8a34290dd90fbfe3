#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_version.sh [ROOT] : every place that states the version states that of include/esscher/export.h.
set -eu
cd "${1:-$(dirname "$0")/..}"
number() { sed -n "s/^#define ES_VERSION_$1 *//p" include/esscher/export.h; }
version=$(number MAJOR).$(number MINOR).$(number PATCH)
bad=no

# said PLACE VERSION : what PLACE says.
said() {
    [ "$2" = "$version" ] && return 0
    echo "FAIL: $1 says '$2', include/esscher/export.h $version" >&2
    bad=yes
}

said ES_VERSION_STRING "$(number STRING | tr -d '"')"
said CMakeLists.txt "$(sed -n 's/^project(esscher VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)"
said CITATION.cff "$(sed -n 's/^version: //p' CITATION.cff)"
said python/esscher/_version.py "$(sed -n 's/^version = "\(.*\)"/\1/p' python/esscher/_version.py)"
said debian/changelog "$(sed -n '1s/^esscher (\([0-9.]*\)-.*/\1/p' debian/changelog)"
for file in debian/control debian/rules; do # a package is named by the library's SONAME
    for minor in $(grep -o 'libesscher[0-9][0-9.]*[0-9]' "$file" | sort -u); do
        said "$file" "${minor#libesscher}.${version##*.}"
    done
done
for job in examples/kubernetes/*.yaml; do
    said "$job" "$(sed -n 's/^ *image: esscher://p' "$job")"
done
# Documents that quote the program: ./do published makes them again.
for page in docs/data/CLAIMS.md docs/data/CALIBRATION.md docs/GALLERY.md docs/TUTORIAL.md README.md; do
    said "$page" "$(sed -n 's/.*\<esscher \([0-9]\+\.[0-9]\+\.[0-9]\+\).*/\1/p' "$page" | head -n 1)"
done
minor=$(sed -n 's/^find_package(esscher \([0-9.]*\).*/\1/p' examples/CMakeLists.txt)
said examples/CMakeLists.txt "$minor.${version##*.}"
[ $bad = no ] || exit 1
echo "$version everywhere"
