# converge --predict: theory without fitted constants is within a sixth of 100 replicates, whose own error is about 5 %
# (5 % more come from sampling the queries of the prediction).
esscher converge --dim 6 --n 200,400,800 --replicates 100 --scales 1,3 --predict --quiet --json >answer
for row in 0 1 2 3 4 5; do
    for what in mean cov map; do
        echo "$(get_json answer predictions.$row.${what}_error) $(get_json answer predictions.$row.predicted_${what}_error)"
    done
done | awk '{ r = $1 / $2; if (r > 1.17 || r < 1 / 1.17) { print "off", $0; bad = 1 } } END { print NR, bad ? "bad" : "good" }'
esscher converge --law sphere --dim 3 --n 100,200,400 --replicates 2 --predict --quiet >/dev/null
echo "rc=$?"
