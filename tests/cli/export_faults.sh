# SPDX-License-Identifier: Apache-2.0
# FS03: files that are no run files, damaged ones, and names that are none.
make_run a.run 7
export_() { esscher export "$@" >out; echo "rc=$? $(wc -c <out)"; }
export_
export_ a.run b.run
export_ a.run --table row
make_run part.run 7 2
export_ part.run --table rows
export_ nothing.run
export_ .
: >empty.run
export_ empty.run
echo "n,mean" >text.run
export_ text.run
head -c 9000 a.run >short.run
export_ short.run --json
head -c 60 a.run >newer.run
printf '\0\0\0\003' >>newer.run
tail -c +65 a.run >>newer.run
export_ newer.run
mkfifo pipe.run
export_ pipe.run
