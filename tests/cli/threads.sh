# SPDX-License-Identifier: Apache-2.0
# The same bytes for any number of threads: tables, CSV and files.
make_npy q.npy f32 2x700x16 normal 1 && make_npy v.npy f32 2x700x8 normal 3
for threads in 1 2 3; do
    esscher measure --q q.npy --k q.npy --v v.npy --self --prefixes 10..700*4 --top-k 1,8 \
        --quiet --threads $threads --output y$threads.npy >table$threads
    esscher measure --q q.npy --k q.npy --v v.npy --exclude-self --scales 0.1..1*3 --csv --quiet \
        --threads $threads >csv$threads
    esscher measure --q q.npy --k q.npy --v v.npy --quiet --threads $threads --per-query s$threads.csv >/dev/null
done
cmp table1 table2 && cmp table1 table3 && cmp csv1 csv3 && cmp y1.npy y3.npy && cmp s1.csv s3.csv && echo same
wc -l <s1.csv
