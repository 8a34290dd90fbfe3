#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# arm.sh: cross-compiles for 64-bit Arm and runs the tests under QEMU; options go to ctest.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
. scripts/lib_tests.sh

# need_to_cross_build : lists the packages that a build for 64-bit Arm takes.
need_to_cross_build() {
    need gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc
    need cmake cmake
    need ninja-build ninja
    need pkg-config pkg-config
    need qemu-user qemu-aarch64
    need dpkg dpkg # unpacks the libraries listed below
}

need_to_cross_build
install_missing
# Arm libraries go into a directory of their own, separate from the libraries of this machine.
sh cmake/aarch64_root.sh build/arm-root libc6-dev libgomp1 libopenblas-dev liblapacke-dev librandom123-dev \
    libsqlite3-dev libjansson-dev libutf8proc-dev libpcre2-dev libcmocka-dev
: >build/check.txt
# Left out: tests of the source (label source), tests that take hours here (label slow, NU05), tests that use this machine's
# compiler, Python, browser, shells, launchers or clock, and a test with too little memory for QEMU to start.
if build arm; then
    ESSCHER_QUICK_TESTS=1 run_tests arm --parallel 2 --timeout 3000 --label-exclude '^(source|slow)$' --exclude-regex \
        '^(attend_edges.NU05.*|install|reproducible|files_.*|python_.*|docs_.*|notebook|bench_run|browser|slurm|kubernetes|mpi_.*|cli_completion.*|cli_cl08_memory)$' \
        "$@"
else
    note "failed arm building"
fi
sum_up
