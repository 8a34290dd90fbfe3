# SPDX-License-Identifier: Apache-2.0
# CL06: a file that cannot grow ends in exit code 4, and neither a file nor a draft is left behind.
make_npy q.npy f32 2000x8 normal 1
measure() { (ulimit -f 16; esscher measure --q q.npy --k q.npy --v q.npy --quiet "$@" 2>err); echo "rc=$?"; head -1 err; }
measure --per-query s.csv >out; cat out
measure --output y.npy >out; cat out
measure --per-query s.npy >out; cat out
ls -A
