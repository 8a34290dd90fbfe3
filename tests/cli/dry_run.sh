# SPDX-License-Identifier: Apache-2.0
# --dry-run says what a run costs and does nothing.
make_npy q.npy f32 100x64 normal 1
esscher measure --q q.npy --k q.npy --v q.npy --dry-run --output y.npy
# attention takes 4 x 100 x 100 x 64 operations, the horizon 2 (4 x 100 x 64^2 + 2 x 64^3) + 16 x 64^3
esscher measure --q q.npy --k q.npy --v q.npy --dry-run --json | grep -E '"(flops|input_bytes)"'
esscher measure --q q.npy --k q.npy --v q.npy --dry-run --csv | head -1
esscher bench --dry-run --max-memory 1K --csv | head -1
# a cache takes memory, too, and a run stays within what was announced; what cannot be run is refused at once
model=$(cd "$(dirname "$0")/../golden/decoders/llama" && pwd)
cache='--evict decode --policy h2o --keys 8'
for options in '' "$cache"; do
    esscher encode --model "$model" --ids "$model/ids.npy" $options --dry-run --json >cost || exit 1
    get_json cost cost.memory_bytes >>bytes
done
awk 'NR == 1 { plain = $1 } NR == 2 { print ($1 > plain ? "more" : "no more") " with a cache" }' bytes
esscher encode --model "$model" --ids "$model/ids.npy" $cache --max-memory "$(tail -1 bytes | cut -d. -f1)" --quiet >/dev/null && echo enough
esscher encode --model "$model" --ids "$model/ids.npy" --evict decode --policy h3o --keys 8 --dry-run 2>&1 | grep -o 'evict.policy'
rm cost bytes
ls
