#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check.sh [--quick]: builds, runs every test, runs the quick ones with sanitizers, and fuzzes every parser.
#
# --quick builds once, without sanitizers, and leaves out tests with the labels slow, docs and foreign (tests/CMakeLists.txt).
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
. scripts/lib_tests.sh

# need_to_test : lists the packages that the tests take, beside those of a build.
need_to_test() {
    need g++ c++ g++ clang++ # the headers are also compiled as C++
    need binutils readelf    # lists symbols and the SONAME
    need mandoc mandoc       # checks the man pages
    need libsimde-dev /usr/include/simde/x86/avx512.h # emulates AVX-512 and NEON to test their kernels
    wish chromium chromium chromium-browser google-chrome # opens reports
    wish clang-format-14 clang-format-14
    wish zsh zsh   # runs the completion script
    wish fish fish
    wish python3-numpy '/usr/lib/python3*/*-packages/numpy' # reads and writes .npy files
    for part in pip setuptools wheel; do # build, install and remove the wheel
        wish python3-$part "/usr/lib/python3*/*-packages/$part"
    done
    wish python3-venv '/usr/lib/python3*/ensurepip'
    wish python3-pandas '/usr/lib/python3*/*-packages/pandas' # reads exported files, like R and sqlite3
    wish mypy mypy # checks the Python package's types
    wish python3-matplotlib '/usr/lib/python3*/*-packages/matplotlib' # draws results
    wish python3-torch '/usr/lib/python3*/*-packages/torch' # the Python package takes its tensors
    wish r-base-core Rscript
    wish sqlite3 sqlite3
    wish locales /usr/share/i18n/locales/de_DE # for a locale with decimal commas
    wish openmpi-bin mpirun.openmpi # starts MPI ranks
    wish mpich mpirun.mpich
    wish mkdocs mkdocs # builds the documentation site
    wish mkdocs-material '/usr/share/mkdocs/themes/material/main.html'
    wish jupyter-nbconvert jupyter-nbconvert # runs the notebook of examples/
    wish python3-ipykernel '/usr/lib/python3*/*-packages/ipykernel'
    wish clang clang # fuzzes; needs its run-time library
    wish libclang-rt-dev '/usr/lib/llvm-*/lib/clang/*/lib/*/libclang_rt.fuzzer*.a'
    if [ "$(id -u)" = 0 ]; then # the test slurm starts a cluster of one node, which only root may do
        wish slurmctld slurmctld # brings munge and srun
        wish slurmd slurmd
    fi
}

quick=no
case "$#,${1-}" in
0,) ;;
1,--quick) quick=yes ;;
*)
    echo "usage: ./do check [--quick]" >&2
    exit 2
    ;;
esac
need_to_build
need_to_test
install_missing
mkdir -p build
: >build/check.txt
began=$(date +%s)
took() { say "$1: $(($(date +%s) - began)) s since the start"; }
# Four at a time, even on two processors: many tests mostly wait for a disk or a child process.
if [ $quick = yes ]; then
    if build release; then
        ESSCHER_QUICK_TESTS=1 run_tests release --parallel 4 --label-exclude '^(slow|docs|foreign)$'
    else
        note "failed release building"
    fi
    took "release build and quick tests"
    sum_up
    exit
fi
if build release; then run_tests release --parallel 4; else note "failed release building"; fi
took "release build and every test"
# Tests of the source (label source) and long tests (labels slow and plain) are not repeated.
if build asan; then
    ESSCHER_QUICK_TESTS=1 run_tests asan --parallel 4 --label-exclude '^(source|slow|plain)$'
else
    note "failed asan building"
fi
took "AddressSanitizer and UBSan, quick tests"
if ! can_fuzz; then
    note "skipped fuzz every_parser clang with libFuzzer is missing (Debian packages clang, libclang-rt-dev)"
elif build fuzz --target fuzzers; then
    run_tests fuzz --parallel 2 --label-regex '^fuzz$'
else
    note "failed fuzz building"
fi
took "fuzzing"
sum_up
