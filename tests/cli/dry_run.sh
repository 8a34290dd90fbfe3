# SPDX-License-Identifier: Apache-2.0
# --dry-run says what a run costs and does nothing.
make_npy q.npy f32 100x64 normal 1
esscher measure --q q.npy --k q.npy --v q.npy --dry-run --output y.npy
# attention takes 4 x 100 x 100 x 64 operations, the horizon 2 (4 x 100 x 64^2 + 2 x 64^3) + 16 x 64^3
esscher measure --q q.npy --k q.npy --v q.npy --dry-run --json | grep -E '"(flops|input_bytes)"'
esscher measure --q q.npy --k q.npy --v q.npy --dry-run --csv | head -1
esscher bench --dry-run --max-memory 1K --csv | head -1
ls
