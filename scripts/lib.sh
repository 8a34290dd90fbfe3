# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# lib.sh: functions shared by the scripts of ./do. Source it from the root of the repository.

# Idle OpenMP threads sleep instead of spinning, which would take the processors from other programs.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"

missing= # Debian packages that a command cannot do without
wished=  # Debian packages that it can do without

# say WORD... : prints a message on stderr.
say() { echo "do: $*" >&2; }

# need PACKAGE PLACE... : adds PACKAGE to $missing unless one of the places exists. A place is the name of a program, or an
# absolute path, which may be a pattern.
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

# wish PACKAGE PLACE... : like need, for an optional package.
wish() {
    before=$missing
    need "$@"
    [ "$missing" = "$before" ] || wished="$wished $1"
    missing=$before
}

# need_to_build : lists the packages that a build takes.
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
    need libpcre2-dev '/usr/lib/*/pkgconfig/libpcre2-8.pc' /usr/lib/pkgconfig/libpcre2-8.pc
    need libcmocka-dev '/usr/lib/*/pkgconfig/cmocka.pc' /usr/lib/pkgconfig/cmocka.pc
    wish libopenmpi-dev '/usr/lib/*/pkgconfig/ompi-c.pc' # a plugin is built for each MPI that is installed
    wish libmpich-dev '/usr/lib/*/pkgconfig/mpich.pc'
    wish nodejs node # the report's figures are bundled from npm packages
    wish npm npm
}

# install_missing : installs $missing and $wished with apt. Exits if a needed package cannot be installed.
install_missing() {
    [ -n "$missing$wished" ] || return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        [ -z "$wished" ] || say "continuing without these optional packages (Debian names):$wished"
        [ -n "$missing" ] || return 0
        say "apt-get not found; install these packages (Debian names) yourself:$missing"
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
    # "apt-get update" also fails for reasons that do not matter here; "apt-get install" fails if they do.
    $as_root apt-get update -qq >"$log" 2>&1 || say "apt-get update failed, continuing"
    # shellcheck disable=SC2086  # a list of words
    if [ -n "$missing" ] && ! apt_install $missing; then
        cat "$log" >&2
        rm -f "$log"
        say "installing failed, see above; needed packages:$missing"
        exit 1
    fi
    for package in $wished; do
        apt_install "$package" || say "continuing without $package, which could not be installed"
    done
    rm -f "$log"
}

# apt_install PACKAGE... : installs packages; output goes to $log.
apt_install() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" \
        >>"$log" 2>&1 </dev/null
}

# check_cmake : exits if CMake is too old, with a shorter message than CMake's own.
check_cmake() {
    version=$(cmake --version | sed -n '1s/[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    major=${version% *}
    minor=${version#* }
    if [ "$major" -lt 3 ] || { [ "$major" -eq 3 ] && [ "$minor" -lt 25 ]; }; then
        say "CMake $major.$minor is too old: 3.25 is needed (Debian 12, Ubuntu 24.04)"
        exit 1
    fi
}

# build PRESET [OPTION of cmake --build]... : builds into build/PRESET; prints the log only if the build fails.
build() {
    preset=$1
    shift
    check_cmake
    mkdir -p build
    if ! { cmake --preset "$preset" && cmake --build --preset "$preset" "$@"; } >"build/$preset.log" 2>&1; then
        cat "build/$preset.log" >&2
        say "building failed, see above"
        return 1
    fi
}
