#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sanitize.sh: runs the tests with AddressSanitizer and UBSan, then with ThreadSanitizer.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

need_to_build
install_missing
for preset in asan tsan; do
    build "$preset"
    ESSCHER_QUICK_TESTS=1 ctest --preset "$preset" --parallel 1
done
