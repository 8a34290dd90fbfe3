# SPDX-License-Identifier: Apache-2.0
# CL02: grids that make no sense are refused; points that coincide are merged and said.
for grid in 9..3*4 0..9*3 1..9*0 1..9 128,64 64,64 0 1,,2; do
    esscher measure --prefixes "$grid"
    echo "rc=$?"
done
make_npy q.npy f32 4x3 normal 1 && make_npy k.npy f32 20x3 normal 2
esscher measure --q q.npy --k k.npy --v k.npy --prefixes 1..3*8 --csv | cut -d, -f3
esscher measure --q q.npy --k k.npy --v k.npy --prefixes 10,21
echo "rc=$?"
esscher measure --q q.npy --k k.npy --v k.npy --top-k 0
echo "rc=$?"
