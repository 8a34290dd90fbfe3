# Ctrl-C stops a long run soon, with exit code 130, and leaves no file behind. (A shell starts
# background jobs with SIGINT ignored; the program asks for it explicitly.)
make_npy q.npy f32 60000x64 normal 1
esscher measure --q q.npy --k q.npy --v q.npy --out y.npy --per-query s.csv --threads 1 --precision f64 >out 2>err &
pid=$!
sleep 2
kill -INT $pid
start=$(date +%s)
wait $pid
echo "rc=$?"
[ $(($(date +%s) - start)) -le 10 ] && echo soon
grep -c interrupted err
wc -c <out
ls -A
