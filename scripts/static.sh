#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# static.sh: builds a program that needs no shared library and compares it with the usual one.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

need_to_build
need gfortran '/usr/lib/gcc/*/*/libgfortran.a' # OpenBLAS and LAPACK use its run-time library
need zlib1g-dev '/usr/lib/*/libz.a' # used by SQLite
need binutils readelf
install_missing
build release --target esscher_program
build static
sh packaging/static.sh "$PWD/build/static/esscher" "$PWD/build/release/esscher"
