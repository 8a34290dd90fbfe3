#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# do: sets up, builds, tests and packages Esscher. Each command is a script: ./do NAME runs scripts/NAME.sh.
set -eu
cd "$(dirname "$0")"

help() {
    cat <<'END'
usage: ./do COMMAND [OPTION...]

Start here
  demo         build Esscher, download a small model, run the tour and write demo/report.html
  check        build and run every test: all tests with warnings as errors, the quick tests with
               AddressSanitizer and UBSan, then 10 s of fuzzing per parser; lists skipped tests.
               25 minutes on two cores. --quick: one build and the short tests, 5 minutes

Test more
  sanitize     run the tests with AddressSanitizer and UBSan, then with ThreadSanitizer
  arm          cross-compile for 64-bit Arm and run the tests under QEMU; more than an hour
  format       list the C files that clang-format 14 would change
  tidy         run clang-tidy 14 over the library and the program
  bench        compare speed with NumPy, PyTorch and onnxruntime, if they are installed

Regenerate documents (an interrupted command continues when you run it again)
  claims       check the papers' statements at paper effort and write docs/data/CLAIMS.md; 30 minutes on two cores
  calibration  count how often intervals, p-values and verdicts are right over 400 seeds and write
               docs/data/CALIBRATION.md; takes the options of "esscher selfcheck"
  gallery      redraw the figures of docs/GALLERY.md; a few minutes
  papers       redraw the figures of docs/PAPERS.md from run files in build/papers; 40 minutes on two cores
  published    regenerate every document that quotes the program: claims, calibration, gallery,
               README.md and docs/TUTORIAL.md; more than an hour on two cores
  docs         build the documentation site in build/site

Package
  dist         build the source release build/dist/esscher-VERSION.tar.xz from the last commit, check that
               a second run gives the same bytes, and build it without npm
  deb          build Debian packages in build/deb and run lintian; as root, also install and purge them in
               a minimal system
  static       build build/static/esscher, which needs no shared library, and compare it with the usual one

Each command first installs missing packages with apt (Debian 12, Ubuntu 24.04 or later).
END
}

command=${1-}
case $command in
'' | help | -h | --help)
    help
    ;;
demo | check | sanitize | arm | format | tidy | bench | claims | calibration | gallery | papers | published | docs | dist | deb | static)
    shift
    exec sh "scripts/$command.sh" "$@"
    ;;
*)
    help >&2
    echo "do: unknown command '$command'" >&2
    exit 2
    ;;
esac
