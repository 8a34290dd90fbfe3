# SPDX-License-Identifier: Apache-2.0
"""Wrong attention kernels, written in NumPy without a look at ours: each must be found, none may be
called by another mistake's name, and those that are known must be called by their own."""

import unittest

import numpy as np

import esscher

SHAPES = {  # query heads, key heads, queries and keys, channels
    "small": (4, 4, 96, 16),
    "grouped": (8, 2, 150, 32),
    "uneven": (6, 3, 133, 24),
    "whole": (4, 2, 128, 16),
    "long": (2, 1, 1200, 16),
}


def inputs(shape, seed, spread=1.0):
    heads, groups, n, d = SHAPES[shape]
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((heads, n, d)) * spread
    k = rng.standard_normal((groups, n, d))
    v = rng.standard_normal((groups, n, d))
    return [x.astype(np.float32) for x in (q, k, v)]


def causal_mask(n, ahead=0):
    return np.arange(n)[None, :] <= np.arange(n)[:, None] + ahead


def kernel(q, k, v, mask=None, scale=None, bias=0.0, weights=lambda w: w, scores=lambda s: s):
    """Attention in f64 with hooks where mistakes go."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    group = len(q) // len(k)
    k, v = np.repeat(k, group, 0), np.repeat(v, group, 0)
    s = np.einsum("hid,hjd->hij", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    s = scores(s) + bias
    if mask is not None:
        s = np.where(mask, s, -np.inf)
    with np.errstate(all="ignore"):
        w = np.exp(s - np.where(np.isfinite(s).any(-1, keepdims=True), s.max(-1, keepdims=True), 0))
        total = w.sum(-1, keepdims=True)
        w = np.where(total > 0, w / total, 0.0)
    return np.einsum("hij,hjd->hid", weights(w), v)


def first_dropped(count):
    def wrong(q, k, v, causal):
        mask = causal_mask(q.shape[1]) & (np.arange(q.shape[1]) >= count)[None, :]
        return kernel(q, k, v, mask)

    return wrong


def own_block(block, tail):
    """Key blocks that are not complete, or that hold the query itself, are never visited."""

    def wrong(q, k, v, causal):
        i = np.arange(q.shape[1])
        end = (i + (1 if tail else 0)) // block * block
        return kernel(q, k, v, i[None, :] < end[:, None])

    return wrong


def guarded(mask_of, alone=False):
    """A kernel that misses keys, but gives queries without any all keys up to their own, or that one alone."""

    def wrong(q, k, v, causal):
        n = q.shape[1]
        mask = causal_mask(n) & mask_of(np.arange(n)[:, None], np.arange(n)[None, :])
        rest = np.eye(n, dtype=bool) if alone else causal_mask(n)
        return kernel(q, k, v, np.where(mask.any(-1, keepdims=True), mask, rest))

    return wrong


def last_block(block):
    def wrong(q, k, v, causal):
        n = q.shape[1]
        return kernel(q, k, v, np.broadcast_to(np.arange(n) < n // block * block, (n, n)))

    return wrong


def last_block_causal(block):
    def wrong(q, k, v, causal):
        n = q.shape[1]
        return kernel(q, k, v, causal_mask(n) & (np.arange(n) < (n - 1) // block * block)[None, :])

    return wrong


def diagonal_unmasked(block):
    """The mask inside a block of the diagonal is forgotten."""

    def wrong(q, k, v, causal):
        i = np.arange(q.shape[1])
        return kernel(q, k, v, i[None, :] < (i[:, None] // block + 1) * block)

    return wrong


def bfloat16(x):
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


def values_of(bits, store):
    """Values were rounded to a few bits, as by a cache: an error of the size of sums in 16 bits."""

    def wrong(q, k, v, causal):
        mantissa, exponent = np.frexp(np.asarray(v, np.float64))
        return store(kernel(q, k, np.ldexp(np.round(mantissa * 2.0 ** (bits + 1)) / 2.0 ** (bits + 1), exponent), plain(q, causal)))

    return wrong


def eight_bits(bits, least, store):
    """Q, K and V in fp8, without scales."""

    def rounded(x):
        x = np.asarray(x, np.float64)
        step = np.maximum(2.0 ** (np.frexp(x)[1] - 1 - bits), least)
        return np.round(x / step) * step

    return lambda q, k, v, causal: store(kernel(rounded(q), rounded(k), rounded(v), plain(q, causal)))


def last_queries_unwritten(q, k, v, causal):
    y = kernel(q, k, v, plain(q, causal))
    y[:, y.shape[1] // 32 * 32 :] = 0
    return y


def plain(q, causal):
    return causal_mask(q.shape[1]) if causal else None


def one_head(which):
    def wrong(q, k, v, causal):
        return kernel(q, k[which : which + 1], v[which : which + 1], plain(q, causal))

    return wrong


def alibi(q, k, v, causal):
    heads, n = q.shape[0], q.shape[1]
    power = 2 ** int(np.log2(heads))
    slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    slopes += [2 ** (-4 * (2 * h + 1) / power) for h in range(heads - power)]
    far = np.abs(np.arange(n)[:, None] - np.arange(n)[None, :])
    return kernel(q, k, v, plain(q, causal), bias=-np.array(slopes)[:, None, None] * far)


def values_rolled(by):
    return lambda q, k, v, causal: kernel(q, k, np.roll(v, by, 1), plain(q, causal))


def values_zero(q, k, v, causal):
    moved = np.zeros_like(v)
    moved[:, 1:] = v[:, :-1]
    return kernel(q, k, moved, plain(q, causal))


def half_sums(q, k, v, causal):
    """Weights and outputs in f16, and so are the sums over keys."""
    q, k, v = (x.astype(np.float16) for x in (q, k, v))
    group, out = len(q) // len(k), np.zeros(q.shape, np.float16)
    for h in range(len(q)):
        s = (q[h].astype(np.float32) @ k[h // group].T.astype(np.float32)) * q.shape[-1] ** -0.5
        if causal:
            s = np.where(causal_mask(len(s)), s, -np.inf)
        w = np.exp(s - s.max(-1, keepdims=True)).astype(np.float16)
        total = np.zeros(len(s), np.float16)
        for j in range(w.shape[1]):
            total += w[:, j]
            out[h] += w[:, j : j + 1] * v[h // group][j]
        out[h] /= total[:, None]
    return out


def no_maximum(q, k, v, causal, store=np.float16):
    """exp(s) in f16 without the largest score taken off."""
    group, out = len(q) // len(k), []
    with np.errstate(all="ignore"):
        for h in range(len(q)):
            s = (q[h] @ k[h // group].T) * q.shape[-1] ** -0.5
            w = np.exp(s.astype(np.float64)).astype(np.float16).astype(np.float64)
            if causal:
                w = w * causal_mask(len(s))
            out.append((w / w.sum(-1, keepdims=True)) @ v[h // group])
    return np.array(out).astype(store)


def dropout(p):
    def wrong(q, k, v, causal):
        rng = np.random.default_rng(77)
        kept = lambda w: w * (rng.random(w.shape) >= p) / (1 - p)
        return kernel(q, k, v, plain(q, causal), weights=kept)

    return wrong


def one_row(q, k, v, causal):
    y = kernel(q, k, v, plain(q, causal))
    y[-1, 40] += 0.3
    return y


def other_rotation(q, k, v, causal):
    """Keys were rotated by another base than queries: Q, K and V that nobody was given."""
    n, d = k.shape[1:]
    angle = np.arange(n)[:, None] * 500.0 ** (-np.arange(d // 2) * 2 / d)
    a, b = k[..., : d // 2], k[..., d // 2 :]
    turned = np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], -1)
    return kernel(q, turned, v, plain(q, causal))


def with_mask(**changes):
    return lambda q, k, v, causal: kernel(q, k, v, plain(q, causal), **changes)


def window(width):
    def wrong(q, k, v, causal):
        i = np.arange(q.shape[1])
        return kernel(q, k, v, causal_mask(len(i)) & (i[None, :] > i[:, None] - width))

    return wrong


# name, kernel, shape, causal, names that are right ("" : no known mistake explains it), spread of q
CASES = [
    ("future key", lambda q, k, v, c: kernel(q, k, v, causal_mask(q.shape[1], 1)), "small", True, ["causal-next"], 1),
    ("future key, grouped", lambda q, k, v, c: kernel(q, k, v, causal_mask(q.shape[1], 1)), "grouped", True, ["causal-next"], 1),
    ("two future keys", lambda q, k, v, c: kernel(q, k, v, causal_mask(q.shape[1], 2)), "uneven", True, ["causal-next"], 1),
    ("first key dropped", first_dropped(1), "small", True, ["first-dropped"], 1),
    ("four first keys dropped", first_dropped(4), "uneven", True, ["first-dropped"], 1),
    ("own block of 16", own_block(16, False), "small", True, ["own-block"], 1),
    ("own block of 64", own_block(64, False), "grouped", True, ["own-block"], 1),
    ("own block of 48", own_block(48, False), "grouped", True, ["own-block"], 1),
    ("tail of blocks of 32", own_block(32, True), "grouped", True, ["block-tail"], 1),
    ("tail of blocks of 16", own_block(16, True), "uneven", True, ["block-tail"], 1),
    ("first key dropped, guarded", guarded(lambda i, j: j >= 1), "grouped", True, ["first-dropped"], 1),
    ("four first keys dropped, guarded", guarded(lambda i, j: j >= 4, alone=True), "small", True, ["first-dropped"], 1),
    ("own block of 16, guarded", guarded(lambda i, j: j < i // 16 * 16), "small", True, ["own-block"], 1),
    ("tail of blocks of 32, guarded", guarded(lambda i, j: j < (i + 1) // 32 * 32, alone=True), "uneven", True, ["block-tail"], 1),
    ("last block of 64", last_block(64), "grouped", False, ["last-keys"], 1),
    ("last block of 32", last_block(32), "uneven", False, ["last-keys"], 1),
    ("last block of 64, causal", last_block_causal(64), "grouped", True, ["last-block"], 1),
    ("last block of 32, causal", last_block_causal(32), "uneven", True, ["last-block"], 1),
    ("last block of 16, whole, causal", last_block_causal(16), "whole", True, ["last-block"], 1),
    ("own block of 64 unmasked", diagonal_unmasked(64), "grouped", True, ["block-ahead"], 1),
    ("own block of 16 unmasked", diagonal_unmasked(16), "small", True, ["block-ahead"], 1),
    ("last queries unwritten", last_queries_unwritten, "uneven", False, ["rows-zero"], 1),
    ("last queries unwritten, causal", last_queries_unwritten, "grouped", True, ["rows-zero"], 1),
    ("one key head", one_head(0), "grouped", True, ["one-head"], 1),
    ("one key head of 3", one_head(2), "uneven", False, ["one-head"], 1),
    ("alibi", alibi, "small", True, ["alibi"], 1),
    ("alibi, 6 heads", alibi, "uneven", True, ["alibi"], 1),
    ("values down", values_rolled(1), "small", False, ["values-shifted"], 1),
    ("values up", values_rolled(-1), "grouped", True, ["values-shifted"], 1),
    ("values down by two", values_rolled(2), "uneven", True, ["values-shifted"], 1),
    ("values with a zero", values_zero, "uneven", True, ["values-shifted"], 1),
    ("sums in f16", half_sums, "grouped", False, ["narrow-sums", "", "met"], 1),
    ("sums in f16, long", half_sums, "long", False, ["narrow-sums"], 1),
    ("no maximum", no_maximum, "small", False, ["overflow"], 6),
    ("no maximum, stored in f32", lambda q, k, v, c: no_maximum(q, k, v, c, np.float32), "small", False, ["overflow"], 6),
    ("no maximum, causal", no_maximum, "uneven", True, ["overflow"], 6),
    ("inputs in bf16", lambda q, k, v, c: kernel(bfloat16(q), bfloat16(k), bfloat16(v), plain(q, c)), "grouped", True, ["inputs-rounded"], 1),
    ("inputs in f16", lambda q, k, v, c: kernel(*(x.astype(np.float16) for x in (q, k, v)), plain(q, c)), "small", False, ["inputs-rounded"], 1),
    ("values of 3 bits", values_of(3, bfloat16), "grouped", True, [""], 1),
    ("values of 3 bits, full", values_of(3, bfloat16), "grouped", False, [""], 1),
    ("values of 6 bits", values_of(6, np.float16), "uneven", True, [""], 1),
    ("values of 5 bits, f32", values_of(5, np.float32), "uneven", False, [""], 1),
    ("inputs in e4m3", eight_bits(3, 2.0**-9, bfloat16), "uneven", True, ["inputs-rounded"], 1),
    ("inputs in e5m2", eight_bits(2, 2.0**-16, np.float16), "grouped", False, ["inputs-rounded"], 1),
    ("dropout 0.1", dropout(0.1), "small", True, ["dropout"], 1),
    ("dropout 0.2", dropout(0.2), "grouped", True, ["dropout"], 1),
    ("dropout, full", dropout(0.1), "small", False, [""], 1),
    ("one row", one_row, "small", True, [""], 1),
    ("another rotation", other_rotation, "grouped", True, [""], 1),
    ("no scale", with_mask(scale=1.0), "small", True, ["scale-none"], 1),
    ("scale 1/d", with_mask(scale=1 / 32), "grouped", False, ["scale-1/d"], 1),
    ("no mask", lambda q, k, v, c: kernel(q, k, v), "small", True, ["unmasked"], 1),
    ("causal unasked", lambda q, k, v, c: kernel(q, k, v, causal_mask(q.shape[1])), "uneven", False, ["causal"], 1),
    ("own key missing", lambda q, k, v, c: kernel(q, k, v, causal_mask(q.shape[1], -1)), "small", True, ["causal-strict"], 1),
    ("window of 20", window(20), "grouped", True, ["window"], 1),
    ("capped at 30", with_mask(scores=lambda s: 30 * np.tanh(s / 30)), "small", True, ["cap-30"], 8),
    ("capped at 5", with_mask(scores=lambda s: 5 * np.tanh(s / 5)), "grouped", True, ["cap-fitted"], 2),
    ("capped at 20", with_mask(scores=lambda s: 20 * np.tanh(s / 20)), "uneven", False, ["cap-fitted"], 4),
    ("heads reversed", lambda q, k, v, c: kernel(q, k, v, plain(q, c))[::-1], "small", True, ["heads-moved"], 1),
    ("doubled", lambda q, k, v, c: 2 * kernel(q, k, v, plain(q, c)), "uneven", False, ["factor"], 1),
    ("tiled groups", lambda q, k, v, c: kernel(q, np.tile(k, (len(q) // len(k), 1, 1)), np.tile(v, (len(q) // len(v), 1, 1)), plain(q, c)), "grouped", True, ["groups-tiled"], 1),
]


def name_of(result):
    """The hypothesis that explains the output; "met": nothing is wrong; "": none does."""
    said = result.json()["compare"]
    return "met" if said["met"] else said.get("looks_like") or ""


class Kernels(unittest.TestCase):
    def test_no_wrong_kernel_is_called_by_another_name(self):
        named = missed = tolerated = 0
        for at, (name, wrong, shape, causal, right, spread) in enumerate(CASES):
            q, k, v = inputs(shape, 100 + at, spread)
            y = wrong(q, k, v, causal)
            y = np.ascontiguousarray(y if y.dtype == np.float16 else y.astype(np.float32))
            found = name_of(esscher.measure(q=q, k=k, v=v, compare=y, causal=causal, threads=1))
            with self.subTest(name):
                self.assertIn(found, right + [""], name)
            named += found in right and found not in ("", "met")
            tolerated += found == "met"
            missed += found == "" and "" not in right
        print(f"{len(CASES)} wrong kernels: {named} named, {missed} not named, "
              f"{tolerated} within what kernels of the format may do")
        self.assertGreaterEqual(len(CASES), 30)
        self.assertEqual(missed, 0)

    def test_a_right_kernel_passes(self):
        for shape in SHAPES:
            for causal in (False, True):
                q, k, v = inputs(shape, 5)
                y = kernel(q, k, v, plain(q, causal)).astype(np.float32)
                esscher.assert_attention(q, k, v, y, causal=causal, threads=1)

    def test_the_message_is_the_verdict(self):
        q, k, v = inputs("small", 6)
        y = kernel(q, k, v, causal_mask(96, 1)).astype(np.float32)
        with self.assertRaisesRegex(AssertionError, "MISMATCH.*one future key.*384 rows agree"):
            esscher.assert_attention(q, k, v, y, causal=True, threads=1)

    def test_the_message_is_about_the_output_alone(self):
        q, k, v = inputs("small", 6)
        y = kernel(q, k, v, causal_mask(96, 1)).astype(np.float32)
        with self.assertRaises(AssertionError) as failed:
            esscher.assert_attention(q, k, v, y, causal=True, threads=1)
        message = str(failed.exception)
        self.assertRegex(message, r"^MISMATCH: out agrees with .* times the expected error\.$")
        self.assertNotIn("compare.npy", message)
        self.assertNotIn("effective number", message)
        right = kernel(q, k, v, causal_mask(96)).astype(np.float16).astype(np.float32)
        with self.assertRaisesRegex(AssertionError, r"error [\d.e-]+ is above the tolerance 1e-06\.$"):
            esscher.assert_attention(q, k, v, right, causal=True, tolerance=1e-6, threads=1)

    def test_every_entry_of_a_batch_is_checked(self):
        entries = [inputs("grouped", seed) for seed in (1, 2, 3)]
        q, k, v = (np.stack(arrays) for arrays in zip(*entries))
        y = np.stack([kernel(*e, causal_mask(150)) for e in entries]).astype(np.float32)
        esscher.assert_attention(q, k, v, y, causal=True, threads=1)
        y[1] = kernel(*entries[1]).astype(np.float32)
        y[2, 0, 7] = 0.0
        with self.assertRaises(AssertionError) as failed:
            esscher.assert_attention(q, k, v, y, causal=True, threads=1)
        lines = str(failed.exception).split("\n")
        self.assertEqual([line[:18] for line in lines], ["entry 1: MISMATCH:", "entry 2: MISMATCH:"])
        esscher.assert_attention(q, k, v, y, causal=True, batch=0, threads=1)

    def test_rows_and_places_are_counted(self):
        q, k, v = inputs("small", 7)
        y = kernel(q, k, v, causal_mask(96)).astype(np.float32)
        y[3, 40] += 0.3
        with self.assertRaisesRegex(AssertionError, "(?s)383 of 384 rows.*worst, row 40 of head 3,"):
            esscher.assert_attention(q, k, v, y, causal=True, threads=1)
        y[3, 50] += 0.3
        with self.assertRaisesRegex(AssertionError, "all wrong rows are in head 3"):
            esscher.assert_attention(q, k, v, y, causal=True, threads=1)
        y[2, 9] += 0.3
        with self.assertRaises(AssertionError) as said:
            esscher.assert_attention(q, k, v, y, causal=True, threads=1)
        self.assertNotIn("all wrong rows", str(said.exception))
        y[2, 7, 5] = np.nan
        with self.assertRaisesRegex(AssertionError, "MISMATCH: .* holds 1 element .* head 2, row 7, column 5"):
            esscher.assert_attention(q, k, v, y, causal=True, threads=1)

    def test_dropout_is_not_the_nearest(self):
        """It is judged on few rows: its distance says nothing."""
        rng = np.random.default_rng(1)
        q = rng.standard_normal((4, 96, 64)) * 2.0 ** np.linspace(-1, 1.5, 4)[:, None, None]
        q, k, v = map(bfloat16, (q, rng.standard_normal((2, 96, 64)), rng.standard_normal((2, 96, 64))))
        y = bfloat16(kernel(q, k, v, causal_mask(96), scores=lambda s: 5 * np.arctan(s / 5)))
        with self.assertRaises(AssertionError) as said:
            esscher.assert_attention(q, k, v, y, causal=True, threads=1)
        self.assertNotIn("dropout", str(said.exception))

    def test_sums_in_f16_are_named_beside_bf16(self):
        """Their errors have one size: the sentence names both."""
        q, k, v = inputs("grouped", 9)
        k[:, :, 0] += 1
        v += 2  # sums that grow
        y = half_sums(q, k, v, True).astype(np.float16)
        with self.assertRaisesRegex(AssertionError, "computed in bf16 or summed in f16 and stored in f16"):
            esscher.assert_attention(q, k, v, y, causal=True, threads=1)

    def test_inputs_may_differ_where_nothing_fits(self):
        q, k, v = inputs("grouped", 8)
        y = other_rotation(q, k, v, True).astype(np.float32)
        with self.assertRaisesRegex(AssertionError, "Q, K or V themselves may differ"):
            esscher.assert_attention(q, k, v, y, causal=True, threads=1)


if __name__ == "__main__":
    unittest.main()
