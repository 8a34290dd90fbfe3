# Claims: a list, one of them, a misspelt one, and a run file that is not computed twice.
[ "$(esscher claims --list --csv | grep -c '^[a-z-]*,')" -ge 30 ] && echo list
esscher claims --only hardmax-law --quiet
esscher claims --only hardmax-exact --out c.run --quiet --csv >first
esscher claims --only hardmax-exact --out c.run --quiet --csv --resume >second
cmp first second && echo same
esscher export c.run --json >c.json && get_json c.json stages.0.name stages.0.cells
esscher export c.run --table evidence --csv | wc -l
esscher claims --only hardmax-exact --json >a.json && get_json a.json effort holds fails unexpected claims.0.verdict
esscher claims --only hardmax-exact --out c.run --quiet --markdown --resume | grep '^| '
esscher claims --only slowdown --max-memory 1K --quiet 2>/dev/null
echo "rc=$?"
esscher claims --only hardmax-lav
echo "rc=$?"
