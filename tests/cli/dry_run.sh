# --dry-run says what a run costs and does nothing.
make_npy q.npy f32 100x64 normal 1
esscher measure --q q.npy --k q.npy --v q.npy --dry-run --out y.npy
esscher measure --q q.npy --k q.npy --v q.npy --dry-run --json | grep -E '"(flops|input_bytes)"'
esscher measure --q q.npy --k q.npy --v q.npy --dry-run --csv | head -1
esscher bench --dry-run --max-memory 1K --csv | head -1
ls
