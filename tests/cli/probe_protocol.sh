# SPDX-License-Identifier: Apache-2.0
# probe --protocol paper: its tables beside those of the default, whose numbers stay; the same bits for any threads and after --resume.
mkdir model && make_model model
export OMP_NUM_THREADS=1
yes 'the cat sat on the mat, word20 word25 unaffable.' | head -120 >text
probe() { esscher probe --model model --text text --replicates 4 --query-count 16 --control 0 --quiet "$@"; }
probe --n 8,16,32,64 --protocol paper --full | grep -E '^(Protocol|By the|Caution: n up to 64 is more)'
probe --n 8,16,32 --protocol paper | grep -c 'Caution: n .* the passage'
probe --n 8,16,32,64 --protocol paper --json --out a.run >a.json || exit 1
get_json a.json protocol paper_rates.4.layer paper_rates.4.block paper_rates.4.tokens paper_rows.5.n paper_rows.5.layer paper_rows.17.block
for key in rate_mean rate_mean_se rate_mean_ci.1 rate_cov rate_cov_se horizon_unscaled_all_heads; do
    get_json a.json paper_rates.11.$key | grep -q '^[0-9]' || echo "$key: $(get_json a.json paper_rates.11.$key)"
done
# the numbers of the default protocol are those of a run without it
probe --n 8,16,32,64 --json >b.json && get_json b.json protocol paper_rates
[ "$(get_json a.json heads.2.rate_map)" = "$(get_json b.json heads.2.rate_map)" ] && echo same
probe --n 8,16,32,64 --protocol paper --json --out a.run --resume --threads 3 >c.json
[ "$(get_json a.json paper_rates.11.rate_mean)" = "$(get_json c.json paper_rates.11.rate_mean)" ] && echo same
# the paper's own sizes
probe --protocol paper --json >d.json && get_json d.json paper_rows.0.n paper_rows.9.n
probe --protocol their 2>&1 || echo "rc=$?"
