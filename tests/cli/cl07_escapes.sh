# SPDX-License-Identifier: Apache-2.0
# CL07: what the user wrote is echoed without control characters or broken UTF-8.
esc=$(printf '\033')
esscher "${esc}[2Jx"; echo "rc=$?"
esscher measure "--a${esc}b"; echo "rc=$?"
esscher measure --scale "$(printf 'x\ny')"; echo "rc=$?"
esscher measure --q "$(printf 'no\377such\n.npy')" --k k --v v; echo "rc=$?"
make_npy "$(printf 'q\033\377.npy')" f32 4x3 normal 1
name=$(printf 'q\033\377.npy')
esscher measure --q "$name" --k "$name" --v "$name" --json --quiet | grep -a -e path -e 'x1b'
