# SPDX-License-Identifier: Apache-2.0
# picture: tables and CSV, the same bytes for any number of threads and after a resume; what makes no sense is refused.
small="--dim 3 --n 10,100 --query-count 20 --perplexity 9 --steps 50 --quiet"
esscher picture $small --json >a.json || exit 1
get_json a.json command method queries neighbours limit rows.0.n rows.1.n points.0.set points.0.query points.59.set points.59.n
for threads in 1 2 3; do
    esscher picture $small --csv --threads $threads >t_$threads
done
cmp t_1 t_2 && cmp t_1 t_3 && echo same
head -1 t_1
wc -l <t_1 | tr -d ' '
esscher picture $small --seed 1 --csv >other
cmp -s t_1 other || echo differ
esscher picture $small --csv --out p.run | cmp - t_1 && echo kept
esscher picture $small --csv --out p.run --resume | cmp - t_1 && echo resumed
# The plain alternative says how much it leaves out; a law on a line has nothing to leave out.
esscher picture --dim 1 --head identity --n 10,100 --query-count 20 --method pca --quiet | sed -n '/^The plane/p'
esscher picture $small --dry-run | grep -c 'memory bound  '
refuse() {
    esscher picture --quiet "$@"
    echo "rc=$?"
}
refuse --query-count 600 --n 10,20,30,40,50
refuse --query-count 8 --n 10 --perplexity 15
refuse --law student --freedom 5
refuse --head 3
refuse --layer 3
refuse --model . --text t --scale 2
refuse --method umap
