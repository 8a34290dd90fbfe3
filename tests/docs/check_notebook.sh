#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_notebook.sh LIBRARY NOTEBOOK : run a notebook of examples/, every cell; a cell that raises is a failure.
#
# LIBRARY is libesscher. The repository has notebooks with their outputs, for readers who do not run them: every cell needs some.
set -eu
library=$1
notebook=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/find_python.sh"
find_python "numpy, nbconvert, ipykernel" "python3-numpy, jupyter-nbconvert, python3-ipykernel"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
# The kernel is this Python, whatever kernels a user has installed.
mkdir -p "$work/kernels/python3" "$work/home"
cat >"$work/kernels/python3/kernel.json" <<END
{"argv": ["$python", "-m", "ipykernel_launcher", "-f", "{connection_file}"], "display_name": "Python 3", "language": "python"}
END
cd "$root/examples" # where a reader starts it
HOME=$work/home JUPYTER_PATH=$work JUPYTER_PLATFORM_DIRS=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/python \
    ESSCHER_LIBRARY=$library OMP_WAIT_POLICY=passive TMPDIR=$work \
    "$python" -m nbconvert --to notebook --execute --ExecutePreprocessor.timeout=120 --output-dir "$work" --output done.ipynb \
    --log-level ERROR "$notebook"
cells=$(grep -c '"cell_type": "code"' "$work/done.ipynb")
answered=$(grep -c '"output_type"' "$work/done.ipynb")
[ "$answered" -ge 8 ] || { echo "FAIL: only $answered outputs"; exit 1; }
stored=$(grep -c '"output_type"' "$notebook" || :)
[ "$stored" -ge "$cells" ] || { echo "FAIL: $notebook has $cells cells and $stored stored outputs"; exit 1; }
! grep -qE '(/tmp/|/home/)' "$notebook" || { echo "FAIL: outputs of $notebook name a directory of the machine that ran it"; exit 1; }
echo "$cells cells, $answered outputs, $stored stored"
