# SPDX-License-Identifier: Apache-2.0
# probe: tables, the keys of the JSON, the same bits for any threads, domains, what it leaves on disk.
mkdir model tmp && make_model model
export TMPDIR="$PWD/tmp" OMP_NUM_THREADS=1 # one thread where none are asked for
yes 'the cat sat on the mat, word20 word25 unaffable.' | head -120 >text
yes 'word16 word17 the word18, word19 cat word21 word22' | head -60 >other
probe() { esscher probe --model model --n 20,50,100 --replicates 2 --query-count 16 --quiet "$@"; }
probe --text text | grep -E '^[A-Z]'
probe --text text --full | grep -E '^[A-Z][a-z]*s?:|^Text|^Layers|^Distance' | grep -v Caution
# heads that were asked for, though their tables wait otherwise
probe --text text --layer 1 --head 0,2 | awk '/^[A-Z]/ { of = $0 } /^ +1 +[02] / { rows[of]++ } END { print rows["Heads: convergence to the limit"], rows["Layers"] + 0 }'
probe --text text --json >a.json || exit 1
get_json a.json command pools.0.tokens pools.0.blocks pools.0.repeats special store draw queries replicates control
for key in reach trace horizon gaussian_frozen coherence heads.2.horizon heads.2.coupling heads.2.rate_mean heads.2.rate_cov_ci.1 \
    heads.2.rate_map heads.2.entropy heads.2.top_mass heads.2.ess heads.2.sink_first heads.2.map_error_limit \
    heads.2.tokens_for_tenth heads.2.tokens_for_tenth_error heads.2.ess_pool heads.2.top_n_high heads.2.rate_map_exact heads.2.random_error heads.2.top_error heads.2.top_random_error heads.2.sampling_error heads.2.thin heads.2.local_exponent heads.2.beta heads.2.beta_frozen heads.2.rate_mean_gaussian heads.2.rate_cov_gaussian_ci.0 heads.2.rate_map_predicted; do
    get_json a.json layers.2.$key | grep -q '^-*[0-9]' || echo "$key: $(get_json a.json layers.2.$key)"
done
get_json a.json layers.2.layer layers.2.heads.2.head heads.8.layer rows.26.n
ls tmp
# without the control nothing else changes
probe --text text --control 0 --json >z.json && get_json z.json control heads.2.rate_mean_gaussian
[ "$(get_json a.json heads.2.rate_mean_ci.0)" = "$(get_json z.json heads.2.rate_mean_ci.0)" ] && echo same
probe --text text --control 1 2>&1 | head -1
probe --text text --csv >one && probe --text text --csv --threads 3 >three && cmp one three && echo same
head -1 one
# [CLS] and [SEP] dropped: 42 blocks have 84 rows less, and no sinks; halves on disk
probe --text text --special drop --store f16 --json >b.json && get_json b.json pools.0.tokens special store heads.0.sink_first
# two domains, of the shorter one's size; one of them in two files
head -20 text >start
probe --domain a=text --domain b=start --domain b=other --json >c.json || exit 1
get_json c.json pools.0.domain pools.0.tokens pools.1.domain pools.1.tokens layers.3.domain differences.8.domain differences.8.against differences.0.differs
probe --domain a=text --domain b=other | grep -E '^Do domains'
# TX01: asked for more than there is
probe --text other --pool 2000 --repeat --json >d.json && get_json d.json pools.0.tokens pools.0.repeats
# TK09: said once, though the text is read more than once
{ cat text && printf 'caf\351'; } >latin && esscher probe --model model --n 20,50 --replicates 2 --query-count 16 --text latin 2>&1 >/dev/null | grep UTF
# a pool that is kept is used again, by the run that made it and by others; not by another text
probe --text text --pool-dir pool --csv >kept && cmp one kept && ls pool && touch -d '2001-01-01' pool/layer-0.npy
probe --text text --pool-dir pool --csv --seed 1 >seed && find pool -name layer-0.npy -newermt '2002-01-01' && ! cmp -s one seed && echo reused
probe --text other --pool-dir pool 2>&1 >/dev/null | sed 's/[0-9a-f]\{16\}/HASH/g' | cut -c 1-90
probe --domain a=text --domain b=other --pool-dir two --csv >/dev/null && ls two
esscher probe --model model --text text --dry-run --json --quiet >e.json && get_json e.json cost.disk_bytes && ls tmp
