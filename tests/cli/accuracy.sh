# SPDX-License-Identifier: Apache-2.0
# Accuracy is measured: small scores are fine in f32, huge ones are warned about, f64 mends them.
# Scores 0.7 j for j up to 99999 differ by 0.7 at the top, where f32 rounds them to 0.008.
make_npy q.npy f32 100x16 normal 1 && make_npy k.npy f32 400x16 normal 2
make_npy one.npy f32 20x1 constant 1 && make_npy index.npy f32 100000x1 index && make_npy v.npy f32 100000x3 normal 1
esscher measure --q q.npy --k k.npy --v k.npy --quiet --json >answer.json; echo "rc=$?"
grep -A1 '"rows": 32' answer.json
measure() { esscher measure --q one.npy --k index.npy --v v.npy --scale 0.7 --quiet --json "$@" >answer.json; echo "rc=$?"; }
measure
measure --precision f64
grep -A2 '"rows": 20' answer.json
