# SPDX-License-Identifier: Apache-2.0
# Files that are missing, broken, empty or do not fit: which one, and why.
make_npy q.npy f32 4x3 normal 1 && make_npy k.npy f32 20x3 normal 2
make_npy wide.npy f32 20x5 normal 2 && make_npy short.npy f32 19x3 normal 2
make_npy two.npy f32 2x20x3 normal 2 && make_npy three.npy f32 3x4x3 normal 2
make_npy line.npy f32 20 normal 2 && make_npy none.npy f32 0x3 normal 2
make_npy nan.npy f64 2x20x3 constant 1 && make_npy nan.npy add nan nan.npy
make_npy inf.npy f32 20x3 constant inf
head -c 100 k.npy >cut.npy && printf 'PK\003\004zip' >zip.npy && mkdir folder
measure() { echo "$*"; esscher measure "$@" --quiet 2>&1; echo "rc=$?"; }
measure --q q.npy --k missing.npy --v k.npy
measure --q q.npy --k folder --v k.npy
measure --q q.npy --k cut.npy --v k.npy
measure --q q.npy --k zip.npy --v k.npy
measure --q q.npy --k wide.npy --v k.npy
measure --q q.npy --k k.npy --v short.npy
measure --q three.npy --k two.npy --v two.npy
measure --q q.npy --k line.npy --v k.npy
measure --q q.npy --k none.npy --v none.npy
measure --q q.npy --k k.npy --v k.npy --self
measure --q q.npy --k k.npy --v k.npy --compare k.npy
measure --q q.npy --k two.npy --v two.npy
make_npy q2.npy f32 2x4x3 normal 1
measure --q q2.npy --k two.npy --v nan.npy
measure --q q.npy --k inf.npy --v k.npy
make_npy big.npy f32 4x3 constant 1e30
measure --q big.npy --k big.npy --v q.npy
