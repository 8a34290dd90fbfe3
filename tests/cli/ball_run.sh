# A run of ball that was killed and resumed gives the table of one that was left alone (FS01).
set -- ball --dim 3 --n 200..800*3 --radii 0.5,1,1.5 --replicates 16 --csv --quiet
esscher "$@" >alone
kill_twice "$@" || exit 1
esscher "$@" --out part.run --resume --threads 2 >part
cmp alone part && echo same
esscher "$@" --out whole.run --resume >whole && cmp alone whole && echo same
esscher export whole.run --table growth --csv | wc -l
esscher "$@" --out whole.run --resume --starts 9 >/dev/null
echo "rc=$?"
