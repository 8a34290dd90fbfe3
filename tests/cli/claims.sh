# SPDX-License-Identifier: Apache-2.0
# Claims: a list by groups, one of them, verdicts and exit codes of a group, a misspelt one, and a run file that is not computed twice.
esscher claims --list --csv | grep '^[a-z-]*,' | cut -d, -f2 | sort | uniq -c
esscher claims --only hardmax-law --quiet
esscher claims --only hardmax-exact --out c.run --quiet --csv >first
esscher claims --only hardmax-exact --out c.run --quiet --csv --resume >second
cmp first second && echo same
esscher export c.run --json >c.json && get_json c.json stages.0.name stages.0.cells
esscher export c.run --table evidence --csv | wc -l
esscher claims --only hardmax-exact --json >a.json && get_json a.json effort unexpected claims.0.verdict claims.0.group
esscher claims --only hardmax-exact --out c.run --quiet --markdown --resume | grep '^| '
# a common assumption is expected to fail
esscher claims --only rope-granularity --json >b.json
echo "rc=$?"
get_json b.json unexpected claims.0.verdict claims.0.group
# a statement of a paper is not: with this seed chance refuses a true one
esscher claims --only sphere-covariance --seed 59 --json >d.json
echo "rc=$?"
get_json d.json unexpected claims.0.verdict claims.0.group
esscher claims --only slowdown --max-memory 1K --quiet 2>/dev/null
echo "rc=$?"
esscher claims --only hardmax-lav
echo "rc=$?"
