# A run of ball that was killed and resumed gives the table of one that was left alone (FS01).
run() { exec esscher ball --dim 3 --n 200..800*3 --radii 0.5,1,1.5 --replicates 16 --csv --quiet "$@"; }
(run --out whole.run >whole)
for pause in 0.1 0.25; do
    if [ -e part.run ]; then set -- --resume; else set --; fi
    (run --out part.run "$@" >/dev/null 2>&1) &
    sleep $pause
    kill -9 $! 2>/dev/null
    wait $! 2>/dev/null
done
if [ -e part.run ]; then set -- --resume; else set --; fi
(run --out part.run --threads 1 "$@" >part)
cmp whole part && echo same
(run >plain) && cmp whole plain && echo same
esscher export whole.run --table growth --csv | wc -l
(run --out whole.run --resume --starts 9 >/dev/null)
echo "rc=$?"
