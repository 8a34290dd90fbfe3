#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_site.sh ESSCHER : the site of ./do docs is built, strictly, and everything in it leads somewhere.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
sh "$root/docs/site/make" "$1" "$work/site"
python3 "$root/tests/docs/check_links.py" "$work/site" "$root"
