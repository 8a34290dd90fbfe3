# SPDX-License-Identifier: Apache-2.0
# CL08: a limit on the address space may refuse a run (5), but it neither crashes nor hangs.
(ulimit -v 400000; esscher --version) >/dev/null 2>&1 ||
    { echo "skipped: this build does not start in 400 MB of addresses (sanitizers need terabytes)"; exit 77; }
export OPENBLAS_NUM_THREADS=2 # it asks for space for each when it is loaded, before anything of ours runs

# survives SIZES COMMAND... : the command works; with SIZES KiB of addresses it does, too, or says that they do not suffice,
# and at least once it says so. Whatever else happens is told, and is not in cl08_memory.out.
survives() {
    sizes=$1
    refused=0
    shift
    "$@" --quiet >/dev/null 2>err || { echo "without a limit: exit code $?: $*"; cat err; }
    for size in $sizes; do
        (ulimit -v "$size" && exec timeout -k 2 30 "$@" --quiet >/dev/null 2>err)
        code=$?
        case $code in
        0 | 127) ;; # 127: not even the loader found memory
        5) refused=$((refused + 1)) ;;
        124 | 137) echo "$size KiB: still at it after 30 s: $*" ;;
        *) echo "$size KiB: exit code $code: $*"; cat err ;;
        esac
    done
    [ $refused -gt 0 ] || echo "never refused: $*"
    echo "$2 survives"
}

make_npy small.npy f32 64x8 normal 1
make_npy q.npy f32 8x64 normal 1
make_npy big.npy f32 200000x64 constant 0.5
survives '90000 120000 150000 250000 400000' esscher measure --q q.npy --k big.npy --v big.npy
# OpenBLAS asks for ever where it is refused addresses: commands of linear algebra say 5 instead
survives '90000 150000 400000' esscher theory --dim 8 --Wq small.npy --Wk small.npy
# ... and so does each of our threads that calls it while others do
make_npy X.npy f64 3000x64 normal 1
for threads in 1 2; do
    OPENBLAS_NUM_THREADS=$threads
    survives '90000 250000 380000 420000 600000' esscher tails --tokens X.npy --control 4 --threads 8
done
# with a pool that is there, `probe` multiplies matrices before anything else has asked for memory
mkdir model && make_model model
yes 'the cat sat on the mat, word20 word25 unaffable.' | head -120 >text
survives '90000 150000 400000' esscher probe --model model --text text --pool-dir pool --n 20,50 --replicates 2
# a wrong question is a wrong question under a limit, too
(ulimit -v 250000; esscher measure --q small.npy --k big.npy --v big.npy >/dev/null 2>&1)
echo "shapes that differ: $?"
