# SPDX-License-Identifier: Apache-2.0
# measure: arrays of four dimensions, a batch, both orders of heads and rows give what (heads, n, d) gives; what does not
# fit names what would.
make_npy q.npy f32 4x30x8 normal 1 && make_npy k.npy f32 2x50x8 normal 2 && make_npy v.npy f32 2x50x6 normal 3
esscher measure --q q.npy --k k.npy --v v.npy --csv --quiet >plain && esscher measure --q q.npy --k k.npy --v v.npy --output y.npy --quiet >/dev/null
same() { esscher measure "$@" --csv --quiet | cmp - plain && echo same; }
for x in q:4x30x8 k:2x50x8 v:2x50x6 y:4x30x6; do
    name=${x%:*} shape=${x#*:}
    make_npy ${name}4.npy as 1x$shape $name.npy           # Hugging Face: (1, heads, n, d)
    make_npy ${name}n.npy swap x $name.npy                # (n, heads, d)
done
make_npy qf.npy as 1x30x4x8 qn.npy && make_npy kf.npy as 1x50x2x8 kn.npy && make_npy vf.npy as 1x50x2x6 vn.npy
make_npy yf.npy as 1x30x4x6 yn.npy && make_npy ym.npy as 1x30x24 yn.npy && make_npy yr.npy as 30x24 yn.npy
same --q q4.npy --k k4.npy --v v4.npy
same --q qf.npy --k kf.npy --v vf.npy --layout bnhd
same --q qn.npy --k kn.npy --v vn.npy --layout bnhd
# a batch of two, of which the first is ours
make_npy b.npy f32 2x4x30x8 normal 1 && make_npy kb.npy f32 2x2x50x8 normal 2 && make_npy vb.npy f32 2x2x50x6 normal 3
same --q b.npy --k kb.npy --v vb.npy --batch 0
esscher measure --q b.npy --k kb.npy --v vb.npy; echo "rc=$?"
esscher measure --q b.npy --k kb.npy --v vb.npy --batch 2; echo "rc=$?"
# the default does not fit, or may be meant otherwise
esscher measure --q qf.npy --k kf.npy --v vf.npy; echo "rc=$?"
make_npy s.npy f32 1x50x2x8 normal 5
esscher measure --q s.npy --k s.npy --v s.npy 2>&1 >/dev/null | grep -c -e '--layout bnhd'
# outputs: of the same order, of the other, all heads side by side
compare() { esscher measure --q q.npy --k k.npy --v v.npy --compare "$@" --tolerance 1e-6 --quiet >/dev/null; echo "rc=$?"; }
compare y4.npy
compare yf.npy --compare-layout bnhd
compare ym.npy
compare yr.npy
compare yf.npy
# bfloat16: raw bytes and integers of two bytes, if one says so
for descr in '<u2' '|V2'; do
    make_npy qb.npy bf16 "$descr" q.npy && make_npy kb.npy bf16 "$descr" k.npy && make_npy vb.npy bf16 "$descr" v.npy
    esscher measure --q qb.npy --k kb.npy --v vb.npy --bf16 --json --quiet >b.json && grep -c '"dtype": "BF16"' b.json
    esscher measure --q qb.npy --k kb.npy --v vb.npy; echo "rc=$?"
done
