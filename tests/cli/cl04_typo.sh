# SPDX-License-Identifier: Apache-2.0
# CL04: a misspelt command or option gets the nearest name as a hint.
esscher mesure; echo "rc=$?"
esscher frobnicate; echo "rc=$?"
esscher help mesure; echo "rc=$?"
esscher measure --prefixs 3; echo "rc=$?"
esscher measure --sclae=3; echo "rc=$?"
esscher converge --scael 3; echo "rc=$?"
esscher measure --frobnicate; echo "rc=$?"
esscher measure -z; echo "rc=$?"
esscher measure stray; echo "rc=$?"
esscher measure -- --q; echo "rc=$?"
esscher measure --q; echo "rc=$?"
esscher measure --self --self; echo "rc=$?"
esscher measure --self=yes; echo "rc=$?"
esscher info --json --csv; echo "rc=$?"
esscher measure; echo "rc=$?"
# values, too
esscher conv; echo "rc=$?"
esscher hlep; echo "rc=$?"
esscher converge --law gausian; echo "rc=$?"
esscher converge --isa avx; echo "rc=$?"
esscher measure --precision f16; echo "rc=$?"
esscher claims --only hardmax-lw; echo "rc=$?"
make_run a.run 1 5
esscher export a.run --table rwos; echo "rc=$?"
# A file or a folder without its option: the option that was probably meant.
echo words >story.txt
mkdir folder
esscher loss story.txt; echo "rc=$?"
esscher loss folder; echo "rc=$?"
# An option where the command should be
esscher --vesion; echo "rc=$?"
esscher --hlp; echo "rc=$?"
esscher --json; echo "rc=$?"
