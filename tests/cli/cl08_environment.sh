# SPDX-License-Identifier: Apache-2.0
# CL08: odd environments are survived: garbage in OMP_NUM_THREADS, little memory, few descriptors, no
# HOME. Little memory may be refused (5), but never ends in a crash.
make_npy q.npy f32 64x8 normal 1
run() { esscher measure --q q.npy --k q.npy --v q.npy --csv --quiet >out 2>err; }
for threads in 0 -3 garbage 1000000 2,2 ''; do
    (export OMP_NUM_THREADS="$threads"; run; echo "rc=$? $(wc -l <out)")
done
(unset HOME PATH_INFO TERM; TMPDIR=/nonexistent run; echo "rc=$?")
(ulimit -n 16; run; echo "rc=$?")
esscher info --isa avx513; echo "rc=$?"
ESSCHER_ISA=nonsense esscher info; echo "rc=$?"
ESSCHER_ISA=portable esscher info | grep chosen
ESSCHER_ISA=portable esscher info --isa portable | grep chosen
