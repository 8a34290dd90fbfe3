#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_format.sh : would clang-format 14 change any C file? Says which lines. Other versions disagree with each other, so
# without this one the check is skipped (exit code 77).
set -eu
cd "$(dirname "$0")/.."
format=
for candidate in clang-format-14 clang-format; do
    case $("$candidate" --version 2>/dev/null) in
    *"version 14."*) format=$candidate && break ;;
    esac
done
if [ -z "$format" ]; then
    echo "skipped: there is no clang-format 14 (Debian package clang-format-14)"
    exit 77
fi

# Tracked files; in an unpacked archive, all files.
if git ls-files --error-unmatch CMakeLists.txt >/dev/null 2>&1; then
    files=$(git ls-files '*.c' '*.h')
else
    files=$(find include src cli tests examples bench -name node_modules -prune -o -name '*.[ch]' -print 2>/dev/null)
fi
# shellcheck disable=SC2086  # a list of words is meant: no name has a space
set -- $files
[ $# -gt 50 ] || { echo "FAIL: only $# files found" >&2; exit 1; }
"$format" --dry-run -Werror "$@"
echo "$# files are as clang-format 14 would have them"
