# SPDX-License-Identifier: Apache-2.0
# downstream: labelled texts and paragraphs through a small classifier; the same bytes for any number of threads; run
# files; the JSON that DESIGN promises.
mkdir model && make_model model
awk 'BEGIN { print "sentence\tlabel"; for (i = 0; i < 20; i++) { for (w = 0; w < 4 + i % 7; w++) printf "word%d ", 15 + (i * 5 + w * w * 3) % 16; print "\t" i % 2 } }' >tasks.tsv
ask() { esscher downstream --model model --tasks tasks.tsv --policy random,bigbird,bigbird+inverse,top --keep 1,0.25 --seed 3 --quiet "$@"; }
ask --threads 1 --csv >one
ask --threads 3 --csv >three
cmp one three && echo same
wc -l <one
head -1 one | cut -d, -f1-6
ask --json >answer
get_json answer command rows.0.policy rows.0.keep rows.0.agreement rows.0.texts rows.1.policy rows.6.policy rows.7.policy
get_json answer rows.0.accuracy_se rows.0.lost_ci.0 >/dev/null && echo errors
ask | head -1
# documents, strata, heads one by one, and a run file that can be resumed
more() { esscher downstream --model model --tasks tasks.tsv --concat 2 --policy top --keep 0.25 --strata --ablate --seed 3 --quiet "$@"; }
more --csv >whole
more --out d.run --csv | cmp - whole && more --out d.run --resume --csv | cmp - whole && echo again
more --json >answer
get_json answer texts.texts strata.0.stratum strata.2.heads ranks.0.heads heads.8.layer heads.8.head
esscher export d.run --table heads --csv | wc -l
# thirds of the texts, several draws of each
esscher downstream --model model --tasks tasks.tsv --policy random --keys 2 --replicates 3 --text-strata --strata-layer 1 --quiet --json >answer
get_json answer text_strata.0.policy text_strata.3.stratum text_strata.5.stratum text_strata.5.texts rows.1.texts
get_json answer text_strata.5.horizon_low text_strata.5.unscaled_low text_strata.5.tokens text_strata.5.excess_se >/dev/null && echo columns
# by number, by part, one layer
esscher downstream --model model --tasks tasks.tsv --policy top --keys 2,3 --layer 1 --quiet --json >answer
get_json answer rows.1.keys_asked rows.1.keys rows.2.keys
esscher downstream --model model --tasks tasks.tsv --policy window --window 1 --quiet --json >answer && get_json answer rows.1.policy
# paragraphs
awk -F'\t' 'NR > 1 { print $1 "\n" }' tasks.tsv >text
esscher downstream --model model --text text --least 4 --policy top --keep 1,0.25 --quiet --json >answer
get_json answer rows.0.policy rows.1.recall texts.texts
esscher downstream --model model --tasks tasks.tsv --dry-run --csv | head -1
