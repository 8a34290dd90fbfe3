# CL06: output that does not arrive is exit code 4: a full disk, a closed stdout, a reader that left.
esscher info >/dev/full; echo "rc=$?" >&2
esscher info >&-; echo "rc=$?" >&2
esscher info --json >/dev/full; echo "rc=$?" >&2
esscher --help >/dev/full; echo "rc=$?" >&2
esscher --version >&-; echo "rc=$?" >&2
{ sleep 0.5; esscher help measure; echo "rc=$?" >&2; } | true
make_npy q.npy f32 4x3 normal 1
esscher measure --q q.npy --k q.npy --v q.npy --output y.npy --quiet >&- 2>&-; echo "rc=$?" >&2
