#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# docs.sh: builds the documentation site (documents, headers, man pages, Python docstrings) in build/site.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

need_to_build
need mandoc mandoc
need mkdocs mkdocs
need mkdocs-material '/usr/share/mkdocs/themes/material/main.html'
install_missing
build release
sh docs/site/make build/release/esscher build/site
