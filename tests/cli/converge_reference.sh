# SPDX-License-Identifier: Apache-2.0
# NU12: against a sample instead of the limit: its own error is said, rows it spoils are in no fit, and the rates that one
# would have believed stand beside. Here every row is spoilt: 400 tokens are as far from the limit as the rows are.
run() { esscher converge --dim 3 --n 100..800*4 --replicates 8 --quiet "$@"; }
run --reference 400 --json >answer
get_json answer reference references.0.tokens rows.0.mean_error_flag rows.3.cov_error_flag rows.3.map_error_flag rows.3.flag \
    fits.0.rate_cov fits.0.rate_cov_reason
get_json answer references.0.rate_cov | awk '{ print ($1 > -1 && $1 < 1) ? "a rate" : $1 }'
get_json answer references.0.limit_cov_error | awk '{ print ($1 > 0.01) ? "off" : $1 }'
run --reference 400 | grep -c 'The reference sample'
# The limit itself, which is the default; the map is always compared with it.
run --csv >plain
run --csv --reference exact >exact
run --csv --reference 400 >sample
cmp plain exact && echo same
cut -d, -f21,22 plain >a && cut -d, -f21,22 sample >b && cmp a b && echo same
# A parameter of the run, however it is written.
run --reference 4e2 --out ref.run --csv >first
run --reference 400 --out ref.run --resume --csv >second
cmp first second && cmp first sample && echo same
run --out ref.run --resume >/dev/null 2>&1
echo "rc=$?"
for bad in 1 many 0 1e30; do
    run --reference $bad >/dev/null 2>&1
    echo "rc=$?"
done
run --reference 400 --queries population >/dev/null 2>&1
echo "rc=$?"
run --reference 400 --law student --freedom 5 >/dev/null
echo "rc=$?"
