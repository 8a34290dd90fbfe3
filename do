#!/bin/sh
# do: everything a newcomer needs, in one place.
#
#   ./do demo     build, run the tour
#   ./do check    build with warnings as errors, run every test
#
# Each command installs what is missing first (Debian and Ubuntu, through apt).
set -eu
cd "$(dirname "$0")"

BUILD=build/release

# Debian package -> a file or program that tells whether it is there already.
need() {
    package=$1
    shift
    for place in "$@"; do
        case $place in
        /*) for file in $place; do [ -e "$file" ] && return 0; done ;;
        *) command -v "$place" >/dev/null 2>&1 && return 0 ;;
        esac
    done
    missing="$missing $package"
}

install_missing() {
    missing=
    need gcc cc
    need libc6-dev /usr/include/stdlib.h
    need cmake cmake
    need ninja-build ninja
    need pkg-config pkg-config
    need libopenblas-dev '/usr/lib/*/pkgconfig/openblas.pc' /usr/lib/pkgconfig/openblas.pc
    need liblapacke-dev '/usr/lib/*/pkgconfig/lapacke.pc' /usr/lib/pkgconfig/lapacke.pc
    need librandom123-dev /usr/include/Random123/philox.h
    need libjansson-dev '/usr/lib/*/pkgconfig/jansson.pc'
    need libcmocka-dev '/usr/lib/*/pkgconfig/cmocka.pc' /usr/include/cmocka.h
    need libsimde-dev /usr/include/simde/x86/avx512.h
    [ -n "$missing" ] || return 0

    if ! command -v apt-get >/dev/null 2>&1; then
        echo "do: these packages (Debian names) are missing and there is no apt-get here:$missing" >&2
        exit 1
    fi
    echo "do: installing$missing" >&2
    as_root=
    if [ "$(id -u)" != 0 ]; then
        as_root=sudo
        if ! command -v sudo >/dev/null 2>&1; then
            echo "do: please run as root: apt-get install$missing" >&2
            exit 1
        fi
    fi
    log=$(mktemp)
    # shellcheck disable=SC2086  # a list of words is meant
    if ! { $as_root apt-get update -qq &&
           $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } >"$log" 2>&1; then
        cat "$log" >&2
        echo "do: installing failed; the packages wanted are:$missing" >&2
        exit 1
    fi
    rm -f "$log"
}

build() {
    install_missing
    cmake --preset release >build.log 2>&1 || { cat build.log >&2; exit 1; }
    cmake --build --preset release >>build.log 2>&1 || { cat build.log >&2; exit 1; }
    rm -f build.log
}

case "${1-}" in
check)
    build
    ctest --test-dir "$BUILD" --output-on-failure --parallel 1
    ;;
demo)
    build
    "$BUILD/esscher" info
    ;;
*)
    sed -n '2,7s/^# \{0,1\}//p' "$0"
    [ $# -eq 0 ] || { echo "do: unknown command '$1'" >&2; exit 2; }
    ;;
esac
