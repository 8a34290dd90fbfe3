# SPDX-License-Identifier: Apache-2.0
# tails: what is refused, and how.
make_npy X.npy f64 600x4 normal 1
make_npy few.npy f64 10x4 normal 1
esscher tails; echo $?
esscher tails --tokens X.npy --text text; echo $?
for option in '--pool 100' '--pool-dir pool' '--special keep' '--special drop' '--blocks-from start' --repeat '--store f32' --allow-trailing; do
    # shellcheck disable=SC2086  # an option and its value
    esscher tails --tokens X.npy --quiet $option; echo $?
done
esscher tails --tokens few.npy --quiet; echo $?
esscher tails --tokens absent.npy; echo $?
esscher tails --tokens X.npy --control 1; echo $?
esscher tails --tokens X.npy --max-memory 10K --quiet; echo $?
mkdir model && make_model model
esscher tails --model model; echo $?
esscher tails --model model --domain a/b=text; echo $?
esscher tails --model model --text absent.txt; echo $?
