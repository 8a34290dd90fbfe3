# SPDX-License-Identifier: Apache-2.0
# CL05: an output that exists is left alone unless --force is given; a run that fails leaves none.
make_npy q.npy f32 4x3 normal 1 && make_npy k.npy f32 20x3 normal 2
measure() { esscher measure --q q.npy --k k.npy --v k.npy --quiet "$@" >/dev/null; echo "rc=$?"; }
echo mine >y.npy
measure --output y.npy
cat y.npy
measure --output y.npy --force
wc -c <y.npy
echo mine >stats.csv
measure --per-query stats.csv
cat stats.csv
measure --per-query stats.csv --force
wc -l <stats.csv
measure --per-query stats.txt
measure --output same.npy --per-query same.npy
measure --output nowhere/y.npy
measure --output /dev/null --force
ls -A
