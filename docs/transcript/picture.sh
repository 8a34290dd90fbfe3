#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# picture.sh PAGE PICTURE : the top of a report as a picture, drawn by a browser without a window.
set -eu
page=$(realpath "$1")
for browser in chromium chromium-browser google-chrome; do
    command -v "$browser" >/dev/null && break
done
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
"$browser" --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update \
    --disable-sync --user-data-dir="$profile" --hide-scrollbars --window-size=1100,1400 --virtual-time-budget=10000 \
    --screenshot="$2" "file://$page" 2>/dev/null
