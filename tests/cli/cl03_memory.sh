# SPDX-License-Identifier: Apache-2.0
# CL03: over the limit is exit code 5, with the estimate, before anything is loaded. The file is
# 800 MB of holes: loading it would take a while and a test that does is a test that fails.
make_npy q.npy f32 4x64 normal 1
printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (3125000, 64), }" >k.npy
truncate -s 800000128 k.npy
esscher measure --q q.npy --k k.npy --v k.npy --max-memory 100M
echo "rc=$?"
esscher measure --q q.npy --k q.npy --v q.npy --max-memory 100M --quiet >/dev/null
echo "rc=$?"
