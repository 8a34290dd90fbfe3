#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pools.py SMALL.csv LARGE.csv : how well a small pool of tokens predicts what a larger one does, by how many tokens count.

The files are bench_pools' (bench/pools.c). Heads are grouped by the median ESS of their queries as a share of the
large pool. Ratios are small over large, median and the range of all but
a tenth on either side; `within errors` counts ratios that both pools' errors (queries and halves) explain, twice their size.
"""
import csv
import math
import sys


def read(path):
    with open(path) as f:
        rows = [{k: float(v) for k, v in r.items()} for r in csv.DictReader(f)]
    return {(int(r["layer"]), int(r["head"]), int(r["n"])): r for r in rows}


SHARES = ("10 % or more", "1 to 10 %", "below 1 %")


def share_of(row):
    share = row["ess"] / row["tokens"]
    return SHARES[0 if share >= 0.1 else 2 if share < 0.01 else 1]


def spread(ratios):
    r = sorted(ratios)
    at = lambda q: r[round(q * (len(r) - 1))]
    return "%.2f (%.2f to %.2f)" % (at(0.5), at(0.1), at(0.9))


def main():
    small, large = read(sys.argv[1]), read(sys.argv[2])
    tokens = [int(next(iter(x.values()))["tokens"]) for x in (small, large)]
    print("pool of %d against pool of %d\n" % tuple(tokens))
    print("| ESS | how many | n | exact, small / large | worst | within errors | Gaussian, small / exact, large | worst |")
    print("|---|---|---|---|---|---|---|---|")
    for name in SHARES:
        for n in sorted({k[2] for k in large}):
            keys = [k for k in large if k[2] == n and share_of(large[k]) == name and k in small]
            if not keys:
                continue
            exact = [small[k]["exact"] / large[k]["exact"] for k in keys]
            gauss = [small[k]["gaussian"] / large[k]["exact"] for k in keys]
            error = [
                math.hypot(
                    math.hypot(small[k]["exact_se"], small[k]["exact_pool"]) / small[k]["exact"],
                    math.hypot(large[k]["exact_se"], large[k]["exact_pool"]) / large[k]["exact"],
                )
                for k in keys
            ]
            inside = sum(abs(math.log(x)) <= 2 * e for x, e in zip(exact, error))
            worst = [max(x, key=lambda r: abs(math.log(r))) for x in (exact, gauss)]
            print(
                "| %s | %d | %d | %s | %.2f | %d | %s | %.2f |"
                % (name, len(keys), n, spread(exact), worst[0], inside, spread(gauss), worst[1])
            )
    print("\n| ESS | 10 %% from, small / large | worst | thin > 0.1 (small) | of these reached later | of the others |" % ())
    print("|---|---|---|---|---|---|")
    n = max(k[2] for k in large)
    for name in SHARES:
        keys = [k for k in large if k[2] == n and share_of(large[k]) == name and k in small]
        if not keys:
            continue
        need = [small[k]["needed"] / large[k]["needed"] for k in keys]
        thin = [r < 1 for r, k in zip(need, keys) if small[k]["thin"] > 0.1]
        rest = [r < 1 for r, k in zip(need, keys) if small[k]["thin"] <= 0.1]
        worst = max(need, key=lambda r: abs(math.log(r)))
        print(
            "| %s | %s | %.2f | %d | %d | %d of %d |"
            % (name, spread(need), worst, len(thin), sum(thin), sum(rest), len(rest))
        )


main()
