# SPDX-License-Identifier: Apache-2.0
# Man pages are made from the same tables as help: every command has one, with the same sections.
for command in $(esscher help --list | cut -f 1 | grep -v '^help$'); do
    esscher help --man $command >page || exit 1
    [ "$(grep -c '^\.TH' page)" = 1 ] || echo "$command: no title"
    for section in NAME SYNOPSIS DESCRIPTION OPTIONS EXAMPLES; do
        grep -q "^\.SH \"*$section" page || echo "$command: no $section"
    done
done
esscher help --man converge | grep -E '^\.(TH|SH)'
