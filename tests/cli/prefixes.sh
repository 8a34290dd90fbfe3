# SPDX-License-Identifier: Apache-2.0
# A row at prefix n is the row of the first n keys alone; with --self the queries are cut as well.
make_npy q.npy f64 40x6 normal 1 && make_npy k.npy f64 60x6 normal 2 && make_npy half.npy f64 25x6 normal 2
esscher measure --q q.npy --k k.npy --v k.npy --prefixes 25,60 --precision f64 --csv --quiet >all
esscher measure --q q.npy --k half.npy --v half.npy --precision f64 --csv --quiet >alone
cut -d, -f1-4 all
sed -n 2p all | cut -d, -f5,9,13 | cut -c1-12 >a; sed -n 2p alone | cut -d, -f5,9,13 | cut -c1-12 >b
cmp a b && echo same
esscher measure --q k.npy --k k.npy --v k.npy --self --prefixes 25,60 --precision f64 --csv --quiet >all
esscher measure --q half.npy --k half.npy --v half.npy --self --precision f64 --csv --quiet >alone
cut -d, -f1-4 all
sed -n 2p all | cut -d, -f5,9,13 | cut -c1-12 >a; sed -n 2p alone | cut -d, -f5,9,13 | cut -c1-12 >b
cmp a b && echo same
# Grouped heads: six query heads on two key heads.
make_npy q6.npy f32 6x10x6 normal 1 && make_npy k2.npy f32 2x20x6 normal 2
esscher measure --q q6.npy --k k2.npy --v k2.npy --csv | cut -d, -f1
esscher measure --q q6.npy --k k2.npy --v k2.npy --scales 1,2 --prefixes 5,20 --output y.npy --quiet
echo "rc=$?"
esscher measure --q q6.npy --k k2.npy --v k2.npy --scales 1,2 --output y.npy --per-query s.npy --quiet >/dev/null
head -c 128 y.npy | tr -dc 'a-z<0-9(), ' | grep -o '([0-9, ]*)'
head -c 128 s.npy | tr -dc 'a-z<0-9(), ' | grep -o '([0-9, ]*)'
