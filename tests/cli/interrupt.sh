# SPDX-License-Identifier: Apache-2.0
# Ctrl-C stops a long run soon, with exit code 130, and leaves no file behind. (A shell starts
# background jobs with SIGINT ignored; the program asks for it explicitly.)
make_npy q.npy f32 60000x64 normal 1
esscher measure --q q.npy --k q.npy --v q.npy --output y.npy --per-query s.csv --threads 1 --precision f64 >out 2>err &
pid=$!
# The run has begun, and SIGINT, the second bit of the mask, has a handler.
until [ -s err ] && grep -Eq '^SigCgt:.*[2367abef]$' /proc/$pid/status; do kill -0 $pid || exit 1; sleep 0.02; done
kill -INT $pid
wait $pid
echo "rc=$?"
# In time of the processor, which does not depend on who else is busy; all of it would take far longer.
times >spent
awk -F'[ms]' 'NR == 2 && 60 * $1 + $2 <= 20 { print "soon" }' spent
rm spent
grep -c interrupted err
wc -c <out
ls -A
