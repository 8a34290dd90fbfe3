# SPDX-License-Identifier: Apache-2.0
"""esscher.attend() against NumPy in f64: shapes, layouts, masks, statistics.  PY01"""

import contextlib
import io
import unittest
import unittest.mock

import numpy as np

import esscher
from esscher import _calls, progress
from reference import attention, distance, sees

# What attend.h states for scores within 10 nats.
TOLERANCE = {"f32": 1e-6, "f64": 1e-12}


def laid_out(rng, array, how):
    """The same numbers in another layout or dtype; f16 rounds them."""
    if how == "c":
        return array
    if how == "f32":
        return array.astype(np.float32)
    if how == "f16":
        return array.astype(np.float16)
    if how == "swapped":
        return array.astype(array.dtype.newbyteorder())
    if how == "fortran":
        return np.asfortranarray(array)
    if how == "strided":
        wide = rng.normal(size=(*array.shape[:-1], 2 * array.shape[-1] + 3))
        wide[..., 1 : 1 + 2 * array.shape[-1] : 2] = array
        return wide[..., 1 : 1 + 2 * array.shape[-1] : 2]
    if how == "negative":
        return np.ascontiguousarray(array[..., ::-1, ::-1])[..., ::-1, ::-1]
    if how == "readonly":
        array = array.copy()
        array.flags.writeable = False
        return array
    assert how == "unaligned"
    raw = np.empty(array.nbytes + 1, np.uint8)
    view = np.ndarray(array.shape, array.dtype, raw.data, offset=1)
    view[...] = array
    return view


LAYOUTS = "c f32 f16 swapped fortran strided negative readonly unaligned".split()


def random_case(rng):
    """Shapes of one to four dimensions with shared heads and broadcasts, and a mask."""
    m, n = (int(x) for x in rng.integers(1, [90, 300]))
    d, dv = (int(x) for x in rng.integers(1, 70, 2))
    lead_q = [(), (3,), (2, 4), (2, 6), (2, 1, 2)][rng.integers(5)]
    lead_k = lead_q
    if len(lead_q) and rng.random() < 0.5:
        divisors = [h for h in range(1, 7) if lead_q[-1] % h == 0]
        lead_k = (*lead_q[:-1], int(rng.choice(divisors)))
    mask = {}
    if rng.random() < 0.5:
        m = min(m, n)
        mask = {
            "causal": bool(rng.integers(2)),
            "window": int(rng.integers(0, 20)),
            "sinks": int(rng.integers(1, 5)),
            "positions": rng.integers(0, n, m),
        }
    shapes = ((*lead_q, m, d), (*lead_k, n, d), (*lead_k, n, dv))
    return shapes, mask


def rounding(y):
    """Largest relative error of rounding a number to the type of ``y``: half of its spacing."""
    return 0.0 if y.dtype == np.float64 else float(np.finfo(y.dtype).eps) / 2


class Types(unittest.TestCase):
    def test_the_output_has_the_type_of_the_queries(self):
        x = np.eye(4)
        for given, made in (("f2", "f2"), ("f4", "f4"), ("f8", "f8"), (">f4", "f4"), ("i4", "f8")):
            y = esscher.attend(x.astype(given), x, x)
            self.assertEqual(y.dtype, np.dtype(made), given)
        a = esscher.attend(x.astype("f4"), x, x, stats=("lse", "top_index"))
        self.assertEqual((a.output.dtype, a.lse.dtype), (np.float32, np.float64))
        self.assertEqual(a.top_index.dtype, np.int64)
        self.assertEqual(esscher.attend(x.tolist(), x, x).dtype, np.float64)

    def test_it_is_the_nearest_number_of_that_type(self):
        rng = np.random.default_rng(3)
        q, k, v = (rng.normal(size=(30, 8)).astype("f2") for _ in range(3))
        exact = esscher.attend(q.astype("f8"), k, v, precision="f64")
        made = esscher.attend(q, k, v, precision="f64")
        np.testing.assert_array_equal(made, exact.astype("f2"))


class Shapes(unittest.TestCase):
    def test_PY01_random_shapes_and_layouts_agree_with_numpy(self):
        """50 of them; the worst distance is printed."""
        rng = np.random.default_rng(18)
        worst = {"f32": 0.0, "f64": 0.0}
        used = set()
        for case in range(50):
            shapes, mask = random_case(rng)
            layouts = [LAYOUTS[(case + i * (1 + case // 9)) % len(LAYOUTS)] for i in range(3)]
            arrays = [laid_out(rng, rng.normal(size=s), how) for s, how in zip(shapes, layouts)]
            precision = ("f32", "f64")[case % 2]
            before = [a.copy() for a in arrays]
            y = esscher.attend(*arrays, precision=precision, threads=1 + case % 3, **mask)
            seen = sees(shapes[0][-2], shapes[1][-2], **mask) if mask else None
            expected = attention(*arrays, mask=seen)[0]
            with self.subTest(case=case, shapes=shapes, layouts=layouts, mask=mask):
                self.assertEqual(y.shape, expected.shape)
                self.assertEqual(y.dtype, arrays[0].dtype.newbyteorder("="))
                self.assertLess(distance(y, expected), TOLERANCE[precision] + rounding(y))
                for a, b in zip(arrays, before):
                    np.testing.assert_array_equal(a, b)
            if y.dtype == np.float64:
                worst[precision] = max(worst[precision], distance(y, expected))
            used.update(layouts)
        self.assertEqual(used, set(LAYOUTS))
        print(f"worst relative error of 50: f32 {worst['f32']:.2g}, f64 {worst['f64']:.2g}")

    def test_PY01_views_are_read_where_they_lie(self):
        """A copy of every other column would have other strides: the pointer is the array's own."""
        from esscher import _arrays

        x = np.ones((8, 10), np.float32)[::-2, 1::3]
        view = _arrays.matrix(_arrays.floats(x, "x"))
        self.assertEqual(view.data, x.ctypes.data)
        self.assertEqual((view.row_stride, view.col_stride), x.strides)

    def test_PY01_empty(self):
        x = np.ones((4, 3))
        self.assertEqual(esscher.attend(x[:0], x, x).shape, (0, 3))
        self.assertEqual(esscher.attend(np.ones((0, 4, 3)), x, x).shape, (0, 4, 3))
        a = esscher.attend(np.ones((50, 0, 3)), x, x, stats=("mean", "covariance", "top_index"))
        for moment in (a.mean, a.covariance):  # over no queries: NaN, and not what memory held
            self.assertTrue(moment.size and np.isnan(moment).all())
        with self.assertRaises(ValueError):
            esscher.attend(x, x[:0], x[:0])
        with self.assertRaises(ValueError):
            esscher.attend(x[:, :0], x[:, :0], x)

    def test_PY01_nan_is_an_error_that_says_where(self):
        q, v = np.ones((2, 5, 3)), np.ones((2, 6, 4))
        v[1, 2, 3] = np.nan
        with self.assertRaises(esscher.NonFiniteError) as raised:
            esscher.attend(q, np.ones((2, 6, 3)), v)
        self.assertEqual((raised.exception.row, raised.exception.col), (2, 3))
        self.assertIn("NaN (head 1)", str(raised.exception))
        self.assertEqual(raised.exception.head, (1,))
        self.assertTrue(raised.exception.rule)
        self.assertEqual(raised.exception.status, "ES_E_NONFINITE")

    def test_PY01_what_are_no_numbers(self):
        x = np.ones((3, 2))
        for bad in (x.astype(complex), x.astype(object), np.array([["a", "b"]] * 3)):
            with self.assertRaises(TypeError):
                esscher.attend(bad, x, x)
        with self.assertRaises(TypeError):
            esscher.attend(np.ma.masked_array(x, mask=True), x, x)
        whole = np.arange(6).reshape(3, 2)
        real = whole * 1.0
        np.testing.assert_array_equal(
            esscher.attend(whole, whole, whole), esscher.attend(real, real, real)
        )

    def test_shapes_that_do_not_fit(self):
        x = np.ones((4, 3))
        for q, k, v in (
            (np.ones(3), x, x),
            (x, np.ones((4, 2)), x),
            (x, x, np.ones((5, 3))),
            (np.ones((3, 4, 3)), np.ones((2, 4, 3)), np.ones((2, 4, 3))),
            (np.ones((2, 1, 4, 3)), np.ones((3, 1, 4, 3)), np.ones((3, 1, 4, 3))),
        ):
            with self.assertRaises(esscher.ShapeError):
                esscher.attend(q, k, v)


    def test_numbers_of_numpy_and_numbers_that_do_not_fit(self):
        x = np.ones((4, 3))
        esscher.attend(x, x, x, window=np.int64(2), sinks=np.int32(1), threads=np.int64(1))
        for bad in (dict(window=2**64), dict(threads=0), dict(threads=2**40), dict(max_memory=-1)):
            with self.subTest(bad), self.assertRaises(ValueError):
                esscher.attend(x, x, x, **bad)
        for bad in (dict(window=1.5), dict(threads="2")):
            with self.subTest(bad), self.assertRaises(TypeError):
                esscher.attend(x, x, x, **bad)


class Statistics(unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(1)
        self.q, self.k, self.v = (rng.normal(size=s) for s in ((2, 20, 8), (2, 50, 8), (2, 50, 5)))

    def test_all_of_them(self):
        everything = [s for s in esscher.attention.STATS]
        a = esscher.attend(
            self.q, self.k, self.v, stats=everything, top_k=[1, 3, 50], block=16, precision="f64"
        )
        y, lse, entropy, w = attention(self.q, self.k, self.v)

        def near(got, expected):
            np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)

        near(a.output, y)
        near(a.lse, lse)
        near(a.entropy, entropy)
        near(a.top_weight, w.max(-1))
        np.testing.assert_array_equal(a.top_index, w.argmax(-1))
        near(a.sum_squares, (w**2).sum(-1))
        near(a.top_mass, np.cumsum(-np.sort(-w, -1), -1)[..., [0, 2, 49]])
        far = ((self.v[:, None] - y[:, :, None]) ** 2).sum(-1)
        near(a.spread2, (w**2 * far).sum(-1))
        blocks = np.add.reduceat(w, range(0, 50, 16), axis=-1)
        near(a.block_powers, np.stack([(blocks**p).sum(-1) for p in (2, 3, 4)], -1))
        sums = np.add.reduceat(w[..., None] * self.v[:, None], range(0, 50, 16), axis=-2)
        near(a.block_spread2, ((sums - blocks[..., None] * y[:, :, None]) ** 2).sum(-2))
        near(a.mean, y.mean(1))
        near(a.covariance, np.stack([np.cov(one.T, bias=True) for one in y]))

    def test_sinks_and_caps(self):
        causal = sees(20, 20, causal=True)
        for q, k, v, sinks, mask in (
            (self.q, self.k, self.v, [1.0, -2.5], None),
            (self.q, self.k, self.v, 3.0, None),
            (self.q[0], self.k[0, :20], self.v[0, :20], 0.5, causal),
            (np.stack([self.q] * 3), self.k, self.v, [[1.0, 2.0], [3.0, 4.0], [5.0, -6.0]], None),
        ):
            for cap in (None, 0.8):
                a = esscher.attend(
                    q, k, v, sink_logits=sinks, score_cap=cap, causal=mask is not None,
                    stats=["lse", "entropy", "top_weight", "top_index"], precision="f64",
                )  # fmt: skip
                y, lse, entropy, w = attention(q, k, v, mask=mask, cap=cap, sinks=sinks)
                self.assertLess(distance(a.output, y), 1e-12)
                np.testing.assert_allclose(a.lse, lse, rtol=1e-11)
                np.testing.assert_allclose(a.entropy, entropy, rtol=1e-10)
                np.testing.assert_allclose(a.top_weight, w.max(-1), rtol=1e-11)
                np.testing.assert_array_equal(a.top_index, w.argmax(-1) - 1)
        none = esscher.attend(self.q, self.k, self.v)
        same = esscher.attend(self.q, self.k, self.v, sink_logits=-np.inf)
        np.testing.assert_array_equal(none, same)
        alone = esscher.attend(
            self.q, self.k, self.v, lists=[[]], list_queries=20, sink_logits=0.0
        )
        np.testing.assert_array_equal(alone, np.zeros((2, 20, 5)))
        for options in (
            {"sink_logits": [1.0, 2.0, 3.0]},
            {"sink_logits": np.nan},
            {"sink_logits": np.inf},
            {"score_cap": 0.0},
            {"score_cap": -1.0},
            {"score_cap": np.nan},
        ):
            with self.subTest(options), self.assertRaises(ValueError):
                esscher.attend(self.q, self.k, self.v, **options)

    def test_scales_and_prefixes_are_dimensions(self):
        a = esscher.attend(
            self.q, self.k, self.v, scale=[0.1, 0.5], prefixes=[10, 25, 50], stats=["mean"],
            precision="f64",
        )  # fmt: skip
        self.assertEqual(a.output.shape, (2, 2, 3, 20, 5))
        self.assertEqual(a.mean.shape, (2, 2, 3, 5))
        for s, scale in enumerate(a.scales):
            for p, n in enumerate(a.prefixes):
                y = attention(self.q, self.k[:, :n], self.v[:, :n], scale)[0]
                self.assertLess(distance(a.output[:, s, p], y), 1e-12)
                self.assertLess(distance(a.mean[:, s, p], y.mean(1)), 1e-12)

    def test_only_statistics(self):
        a = esscher.attend(self.q, self.k, self.v, stats=["lse"], output=False)
        self.assertIsNone(a.output)
        self.assertEqual(a.lse.shape, (2, 20))
        with self.assertRaises(ValueError):
            esscher.attend(self.q, self.k, self.v, stats=["entropie"])

    def test_masks_by_lists_and_classes(self):
        q, k, v = self.q[0], self.k[0], self.v[0]
        lists, factors = [[1, 7], [], [40, 41, 49]], [0.0, 0.0, np.log(5.0)]
        y = esscher.attend(
            q, k, v, sinks=2, lists=lists, list_queries=8, list_factors=factors, precision="f64"
        )
        mask, add = sees(20, 50, sinks=2), np.zeros((20, 50))
        for i in range(20):
            for key in lists[i // 8]:
                add[i, key] = 0 if mask[i, key] else factors[i // 8]
                mask[i, key] = True
        scores = np.where(mask, q @ k.T / 8**0.5 + add, -np.inf)
        w = np.exp(scores)
        self.assertLess(distance(y, w / w.sum(1, keepdims=True) @ v), 1e-12)
        for alone in ({"list_queries": 8}, {"list_factors": factors}):
            with self.assertRaisesRegex(ValueError, "with lists"):
                esscher.attend(q, k, v, **alone)
        classes = np.arange(50) % 3
        y = esscher.attend(q, k, v, classes=classes, class_factors=[0, 1, -2.0], precision="f64")
        w = np.exp(q @ k.T / 8**0.5 + np.array([0, 1, -2.0])[classes])
        self.assertLess(distance(y, w / w.sum(1, keepdims=True) @ v), 1e-12)

    def test_what_lets_keys_be_seen_replaces_all_of_them(self):
        """sinks alone are the sinks and no others; causal takes away from what is seen."""
        q, k, v = self.q[0], self.k[0, :20], self.v[0, :20]
        for mask in (
            {"sinks": 3},
            {"sinks": 3, "causal": True},
            {"window": 2, "sinks": 3, "causal": True},
            {"local": 8, "causal": True},
        ):
            seen = np.zeros((20, 20), bool)
            for i in range(20):
                for j in range(20):
                    near = i - mask.get("window", 0) < j <= i
                    seen[i, j] = near or j < mask.get("sinks", 0)
                    seen[i, j] |= "local" in mask and j // 8 == i // 8
                    seen[i, j] &= j <= i or not mask.get("causal")
            y = esscher.attend(q, k, v, precision="f64", **mask)
            self.assertLess(distance(y, attention(q, k, v, mask=seen)[0]), 1e-12, mask)

    def test_last_positions(self):
        q, k, v = self.q[0, :4], self.k[0], self.v[0]
        y = esscher.attend(q, k, v, causal=True, positions="last", precision="f64")
        mask = sees(4, 50, causal=True, positions=np.arange(46, 50))
        self.assertLess(distance(y, attention(q, k, v, mask=mask)[0]), 1e-12)
        with self.assertRaises(ValueError):  # who stands where is not guessed
            esscher.attend(q, k, v, causal=True)


class Refusals(unittest.TestCase):
    """What the package refuses before the library is asked: its own exceptions, with rule and hint,
    and those of Python that they always were."""

    def setUp(self):
        self.x = np.random.default_rng(5).normal(size=(4, 3))

    def refused(self, kind, rule, **options):
        with self.subTest(options), self.assertRaises(kind) as raised:
            esscher.attend(self.x, self.x, self.x, **options)
        error = raised.exception
        self.assertIsInstance(error, esscher.EsscherError)
        self.assertEqual((error.rule, bool(error.hint)), (rule, True), error)
        self.assertEqual(error.status, "ES_E_ARGUMENT")
        return error

    def test_values_that_cannot_be(self):
        for rule, options in (
            ("python.precision", dict(precision="f16")),
            ("python.isa", dict(isa="mmx")),
            ("python.whole", dict(threads=0)),
            ("python.whole", dict(window=2**64)),
            ("python.stats", dict(stats=["entropie"])),
            ("python.stats", dict(output=False)),
            ("python.scale", dict(scale=[])),
            ("python.prefixes", dict(prefixes=[])),
            ("python.positions", dict(positions="first")),
            ("python.lists", dict(list_queries=2)),
            ("python.lists", dict(lists=[[0]])),
            ("python.classes", dict(classes=[0, 0, 0, 0])),
            ("python.classes", dict(classes=[0, 0, 0, 2], class_factors=[0, 1])),
            ("python.out", dict(output=False, stats="lse", out=self.x.copy())),
        ):
            self.refused(ValueError, rule, **options)

    def test_kinds_that_cannot_be(self):
        for rule, options in (
            ("python.truth", dict(causal="no")),
            ("python.truth", dict(self_attention=1)),
            ("python.truth", dict(exclude_self=None)),
            ("python.truth", dict(output="yes")),
            ("python.whole", dict(threads="2")),
            ("python.whole", dict(prefixes=[1.5])),
            ("python.numbers", dict(scale="0.5")),
            ("python.progress", dict(progress=5)),
            ("python.progress", dict(progress=0)),
            ("python.out", dict(out=[1])),
        ):
            self.refused(TypeError, rule, **options)
        with self.assertRaises(esscher.ArgumentTypeError):
            esscher.attend(self.x.astype(complex), self.x, self.x)

    def test_keywords_without_their_statistics_and_these_without_them(self):
        for rule, options in (
            ("python.top_k", dict(top_k=[2])),
            ("python.top_k", dict(top_k=2, stats="lse")),
            ("python.top_k", dict(stats="top_mass")),
            ("python.block", dict(block=2, stats=["spread2"])),
            ("python.block", dict(stats="block_powers")),
            ("python.block", dict(stats="block_spread2")),
        ):
            self.assertNotIn("opts", str(self.refused(ValueError, rule, **options)))

    def test_rows_of_numbers_are_no_matrices(self):
        two = [[0, 1], [2, 3]]
        for options in (
            dict(scale=two),
            dict(prefixes=two),
            dict(positions=two),
            dict(top_k=two, stats="top_mass"),
            dict(classes=two, class_factors=[0, 0, 0, 0]),
        ):
            with self.subTest(options), self.assertRaisesRegex(esscher.ShapeError, "dimension"):
                esscher.attend(self.x, self.x, self.x, **options)

    def test_one_number_is_a_row_of_one(self):
        a = esscher.attend(self.x, self.x, self.x, stats="top_mass", top_k=2)
        self.assertEqual((a.top_mass.shape, a.top_k), ((4, 1), (2,)))
        many = esscher.attend(self.x, self.x, self.x, scale=np.array([0.5, 1]))
        self.assertEqual(many.output.shape, (2, 4, 3))

    def test_an_answer_keeps_scales_and_prefixes_of_its_own(self):
        scale, prefixes = np.array([0.5, 1]), np.array([2, 4])
        a = esscher.attend(self.x, self.x, self.x, scale=scale, prefixes=prefixes)
        scale[:], prefixes[:] = 7, 7
        self.assertEqual((a.scales.tolist(), a.prefixes.tolist()), ([0.5, 1], [2, 4]))

    def test_progress_may_be_a_line(self):
        x = np.random.default_rng(6).normal(size=(6000, 32))
        patched = unittest.mock.patch.object
        for wanted, said in ((True, True), (None, False), (False, False)):
            with contextlib.redirect_stderr(io.StringIO()) as err:
                with patched(progress, "_QUIET_SECONDS", 0.0), patched(
                    _calls, "_LOOK_SECONDS", 0.001
                ):
                    esscher.attend(x, x, x, progress=wanted, stats="lse", output=False)
            self.assertEqual("attend  [" in err.getvalue(), said, (wanted, err.getvalue()))
            self.assertEqual(err.getvalue()[-1:], "\r" if said else "")


class Output(unittest.TestCase):
    def setUp(self):
        self.x = np.random.default_rng(2).normal(size=(3, 7, 7))
        self.expected = esscher.attend(self.x, self.x, self.x)

    def test_out_is_filled_whatever_its_layout(self):
        for out in (
            np.zeros((3, 7, 7)),
            np.zeros((3, 7, 7), np.float32),
            np.zeros((7, 7, 3)).transpose(2, 0, 1),
        ):
            self.assertIs(esscher.attend(self.x, self.x, self.x, out=out), out)
            np.testing.assert_allclose(out, self.expected, rtol=1e-6)

    def test_out_may_be_an_input(self):
        """Of more queries than are computed at once: the last still see what the keys were."""
        x = np.random.default_rng(4).normal(size=(3000, 16))
        expected = esscher.attend(x, x, x)
        esscher.attend(x, x, x, out=x)
        np.testing.assert_array_equal(x, expected)

    def test_out_that_cannot_be(self):
        readonly = np.zeros((3, 7, 7))
        readonly.flags.writeable = False
        for bad in (np.zeros((3, 7, 6)), readonly, np.zeros((3, 7, 7), int)):
            with self.assertRaises((ValueError, TypeError)):
                esscher.attend(self.x, self.x, self.x, out=bad)
        with self.assertRaisesRegex(ValueError, "output=False"):
            esscher.attend(self.x, self.x, self.x, stats="lse", output=False, out=self.x.copy())

    def test_memory_limit(self):
        with self.assertRaises(esscher.LimitError):
            esscher.attend(self.x, self.x, self.x, max_memory=1)

    def test_kernels_may_be_chosen(self):
        y = esscher.attend(self.x, self.x, self.x, isa="portable")
        self.assertLess(distance(y, self.expected), 1e-6)
        with self.assertRaisesRegex(ValueError, "expected one of portable, "):
            esscher.attend(self.x, self.x, self.x, isa="mmx")

    def test_the_same_bits_on_any_number_of_threads(self):
        x = np.random.default_rng(3).normal(size=(3000, 16))
        one, three = (esscher.attend(x, x, x, threads=t) for t in (1, 3))
        np.testing.assert_array_equal(one, three)


if __name__ == "__main__":
    unittest.main()
