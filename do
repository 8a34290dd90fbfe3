#!/bin/sh
# do: everything a newcomer needs, in one place.
#
#   ./do demo        build, run the tour
#   ./do check       build with warnings as errors, run every test
#   ./do sanitize    build and run the tests under AddressSanitizer with UBSan, then ThreadSanitizer
#   ./do format      which C files would clang-format 14 change?
#   ./do bench       compare with NumPy, PyTorch and onnxruntime, where they are installed
#
# Each command installs what is missing first (Debian 12, Ubuntu 24.04 and newer, through apt).
set -eu
cd "$(dirname "$0")"

say() { echo "do: $*" >&2; }

# need PACKAGE PLACE... : PACKAGE is missing unless one of the places exists: a program, or a file (patterns allowed).
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

# wish PACKAGE PLACE... : the same for what we can do without.
wish() {
    before=$missing
    need "$@"
    [ "$missing" = "$before" ] || wished="$wished $1"
    missing=$before
}

need_to_build() {
    need gcc cc
    need libc6-dev /usr/include/stdlib.h
    need cmake cmake
    need ninja-build ninja
    need pkg-config pkg-config
    need libopenblas-dev '/usr/lib/*/pkgconfig/openblas.pc' /usr/lib/pkgconfig/openblas.pc
    need liblapacke-dev '/usr/lib/*/pkgconfig/lapacke.pc' /usr/lib/pkgconfig/lapacke.pc
    need librandom123-dev /usr/include/Random123/philox.h
    need libsqlite3-dev '/usr/lib/*/pkgconfig/sqlite3.pc' /usr/lib/pkgconfig/sqlite3.pc
    need libjansson-dev '/usr/lib/*/pkgconfig/jansson.pc' /usr/lib/pkgconfig/jansson.pc
    need libutf8proc-dev '/usr/lib/*/pkgconfig/libutf8proc.pc' /usr/lib/pkgconfig/libutf8proc.pc
    need libcmocka-dev '/usr/lib/*/pkgconfig/cmocka.pc' /usr/lib/pkgconfig/cmocka.pc
    wish nodejs node # figures of reports are bundled from npm packages
    wish npm npm
}

need_to_test() {
    need g++ c++ g++ clang++ # the headers are compiled as C++, too
    need binutils readelf    # symbols and SONAME are looked at
    need mandoc mandoc       # man pages are checked
    wish chromium chromium chromium-browser google-chrome # reports are opened in it
    need libsimde-dev /usr/include/simde/x86/avx512.h # emulates AVX-512 for its tiles' test
}

install_missing() {
    [ -n "$missing$wished" ] || return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        [ -z "$wished" ] || say "going on without (Debian names):$wished"
        [ -n "$missing" ] || return 0
        say "these packages (Debian names) are missing and there is no apt-get here:$missing"
        exit 1
    fi
    as_root=
    if [ "$(id -u)" != 0 ]; then
        as_root=sudo
        if ! command -v sudo >/dev/null 2>&1; then
            say "please run as root: apt-get install$missing$wished"
            [ -n "$missing" ] || return 0
            exit 1
        fi
    fi
    say "installing$missing$wished"
    log=$(mktemp)
    # An update may fail for a reason that does not concern us; installing tells.
    $as_root apt-get update -qq >"$log" 2>&1 || say "apt-get update failed, going on"
    # shellcheck disable=SC2086  # a list of words is meant
    if [ -n "$missing" ] && ! apt_install $missing; then
        cat "$log" >&2
        rm -f "$log"
        say "installing failed, see above; the packages wanted are:$missing"
        exit 1
    fi
    for package in $wished; do
        apt_install "$package" || say "going on without $package, which could not be installed"
    done
    rm -f "$log"
}

apt_install() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" \
        >>"$log" 2>&1 </dev/null
}

# What apt installs on an older system may be too old; say so before CMake does at length.
check_cmake() {
    version=$(cmake --version | sed -n '1s/[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    major=${version% *}
    minor=${version#* }
    if [ "$major" -lt 3 ] || { [ "$major" -eq 3 ] && [ "$minor" -lt 25 ]; }; then
        say "CMake 3.25 is needed (Debian 12, Ubuntu 24.04), this is $major.$minor"
        exit 1
    fi
}

# build PRESET : into build/PRESET; silent unless it fails.
build() {
    check_cmake
    mkdir -p build
    if ! { cmake --preset "$1" && cmake --build --preset "$1"; } >"build/$1.log" 2>&1; then
        cat "build/$1.log" >&2
        say "building failed, see above"
        exit 1
    fi
}

command=${1-}
[ $# -eq 0 ] || shift
missing=
wished=
case $command in
demo)
    need_to_build
    install_missing
    build release
    build/release/esscher info
    echo
    echo "Attention over n Gaussian tokens finds its limit (examples/attend.c):"
    build/release/tests/example_attend
    echo
    echo "Next: build/release/esscher help measure; build/release/esscher bench --quick"
    ;;
check)
    need_to_build
    need_to_test
    install_missing
    build release
    ctest --test-dir build/release --output-on-failure --parallel 1
    ;;
sanitize)
    need_to_build
    install_missing
    for preset in asan tsan; do
        build "$preset"
        ESSCHER_QUICK_TESTS=1 ctest --preset "$preset" --parallel 1
    done
    ;;
format)
    need clang-format-14 clang-format-14
    install_missing
    sh tests/check_format.sh
    ;;
bench)
    need_to_build
    install_missing
    build release
    sh bench/run "$@"
    ;;
*)
    sed -n '3,/^set/s/^# \{0,1\}//p' "$0" | sed 1d
    [ -z "$command" ] || { say "unknown command '$command'"; exit 2; }
    ;;
esac
