# SPDX-License-Identifier: Apache-2.0
# sparse: what makes no sense is refused by name, with the right exit code and nothing on stdout (PL02, PL04).
make_npy q.npy f32 6x4 normal 1 && make_npy k.npy f32 40x4 normal 2 && make_npy v.npy f32 40x3 normal 3
make_npy w.npy f32 40x5 normal 4 && make_npy far.npy f64 1x6 constant 40 && make_npy half.npy f64 1x6 constant 0.5
make_npy p.npy f64 1x6 index && make_npy bad.npy f32 40x3 constant nan
try() {
    esscher sparse --quiet "$@"
    echo "rc=$?"
}
qkv="--q q.npy --k k.npy --v v.npy"
try
try --q q.npy --k k.npy
try --q none.npy --k k.npy --v v.npy
try --q q.npy --k w.npy --v v.npy
try --q q.npy --k k.npy --v q.npy
try --q q.npy --k k.npy --v bad.npy
try $qkv --policy tpo
try $qkv --policy top+twice
try $qkv --policy top,top
try $qkv --policy top --window 3
try $qkv --keys 0
try $qkv --keys 41
try $qkv --policy top --keys 8,4
try $qkv --causal
try $qkv --causal --positions far.npy
try $qkv --positions half.npy
try $qkv --positions k.npy
try $qkv --causal --positions p.npy --policy linformer --keys 4
try $qkv --policy window --keys 4
try $qkv --head 1
try $qkv --model x
try $qkv --preset paper --policy top
try --model none --text q.npy
try $qkv --policy top --max-memory 100K
