# SPDX-License-Identifier: Apache-2.0
"""watch: statistics of a model's attention are those of its own weights, and it does not notice."""

import contextlib
import copy
import gc
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings
from pathlib import Path

import numpy as np

import esscher

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    if __name__ != "__main__":
        raise unittest.SkipTest("PyTorch is not installed") from None
    print("skipped: PyTorch (Debian package python3-torch) is not installed")
    sys.exit(77)

import watch_models as models

warnings.filterwarnings("ignore", message=".*nested tensors.*")

# The bound. Weights of f32 models are off by 1e-7 times their scores, statistics of some
# keys by a few times that; 2.3e-6 is the largest that was seen here.
CLOSE = 1e-5

HAS_SDPA = hasattr(F, "scaled_dot_product_attention")


@contextlib.contextmanager
def sdpa():
    """scaled_dot_product_attention, torch's own where it has one, else the stand-in."""
    if HAS_SDPA:
        yield
        return
    F.scaled_dot_product_attention = models.stand_in
    try:
        yield
    finally:
        del F.scaled_dot_product_attention


def refusal(w):
    """The exception of who asks for tables."""
    try:
        w.measure()
    except esscher.UnsupportedError as error:
        return error


def gradients(model):
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


class Watching(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(18)
        self.call = nn.Module.__call__

    def tearDown(self):
        self.assertIs(nn.Module.__call__, self.call)
        self.assertEqual(hasattr(F, "scaled_dot_product_attention"), HAS_SDPA)

    def assert_weights(self, w, weights, batch=0, call=0):
        """Every layer has the statistics of these weights (heads, queries, keys)."""
        self.assertEqual(w.refused, [])
        for layer, told in enumerate(weights):
            rows = models.of_layer(w.result, layer, batch, call)
            self.assertLess(models.largest_difference(rows, told), CLOSE, f"layer {layer}")

    def assert_refused(self, w, *words):
        """Nothing is answered, and the reason has these words in it."""
        with self.assertRaises(esscher.UnsupportedError) as caught:
            w.measure()
        for word in words:
            self.assertIn(word, str(caught.exception))


class Multihead(Watching):
    """torch.nn.MultiheadAttention and what is made of it."""

    def test_fast_path_is_seen_and_kept(self):
        for norm_first in (False, True):
            model = models.encoder(norm_first=norm_first).eval()
            x = torch.randn(2, 24, 16)
            with torch.no_grad():
                plain = model(x)
                fast = torch._transformer_encoder_layer_fwd
                with unittest.mock.patch.object(
                    torch, "_transformer_encoder_layer_fwd", side_effect=fast
                ) as taken, esscher.watch(model) as w:
                    watched = model(x)
                self.assertEqual(taken.call_count, 2)
                self.assertTrue(torch.equal(plain, watched))
                for entry in (0, 1):
                    told = models.encoder_weights(copy.deepcopy(model).double(), x.double(), entry)
                    self.assert_weights(w, told, entry)
            self.assertTrue(all(0 < c.output_error < 1e-6 for c in w.calls), w.calls)
            self.assertEqual(w.layers, {0: "layers.0.self_attn", 1: "layers.1.self_attn"})

    def test_training_has_the_same_bits(self):
        model = models.encoder(dropout=0.1).train()
        x = torch.randn(3, 17, 16)

        def step():
            torch.manual_seed(7)
            model.zero_grad()
            out = model(x)
            out.square().sum().backward()
            return out

        plain = step()
        wanted = gradients(model)
        with esscher.watch(model) as w:
            watched = step()
        self.assertTrue(torch.equal(plain, watched))
        for a, b in zip(wanted, gradients(model)):
            self.assertTrue(torch.equal(a, b))
        self.assertEqual(len(w.calls), 6)
        self.assertEqual({c.output_error for c in w.calls}, {None})  # dropout: no telling

    def test_outputs_are_checked_where_they_are_seen(self):
        model = models.encoder(dropout=0.0).train()
        x = torch.randn(1, 40, 16)
        with esscher.watch(model) as w:
            model(x)
        self.assert_weights(w, models.encoder_weights(copy.deepcopy(model).double(), x.double()))
        self.assertTrue(all(0 < c.output_error < 1e-6 for c in w.calls), w.calls)

    def test_padding_is_left_out(self):
        x = torch.randn(2, 12, 16)
        padding = torch.zeros(2, 12, dtype=torch.bool)
        padding[1, 7:] = True
        for fast in (True, False):
            model = models.encoder(dropout=0.0).train(not fast)
            with torch.no_grad(), esscher.watch(model) as w:
                model(x, src_key_padding_mask=padding)
            exact = copy.deepcopy(model).double().train()
            for entry, kept in ((0, 12), (1, 7)):
                told = models.encoder_weights(exact, x[entry : entry + 1, :kept].double())
                self.assert_weights(w, told, entry)

    def test_masks_that_measure_has(self):
        n = 20
        ahead = torch.arange(n)[None, :] - torch.arange(n)[:, None]
        cases = [
            ((ahead > 0), True, 0),
            ((ahead > 0) | (ahead <= -6), True, 6),
            (ahead.abs() > 4, False, 4),
        ]
        model = models.encoder().eval()
        exact = copy.deepcopy(model).double()
        x = torch.randn(1, n, 16)
        for hidden, causal, window in cases:
            added = torch.zeros(n, n).masked_fill(hidden, -math.inf)
            for mask in (hidden, added, added[None].expand(4, n, n)):
                with torch.no_grad(), esscher.watch(model) as w:
                    model(x, mask=mask)
                self.assertEqual({(c.causal, c.window) for c in w.calls}, {(causal, window)})
            self.assert_weights(w, models.encoder_weights(exact, x.double(), attn_mask=hidden))

    def test_masks_that_measure_has_not(self):
        model = models.encoder().eval()
        x = torch.randn(1, 6, 16)
        hidden = torch.zeros(6, 6, dtype=torch.bool)
        hidden[2, 3] = True
        by_head = torch.zeros(4, 6, 6)
        by_head[1, 2, 3] = -math.inf
        for mask, words in (
            (hidden, "neither causal"),
            (torch.ones(6, 6, dtype=torch.bool).tril(-1), "neither causal"),  # none before it
            (torch.randn(6, 6), "other numbers than 0 and -inf"),
            (by_head, "differs between heads"),
        ):
            with torch.no_grad(), esscher.watch(model) as w:
                model(x, mask=mask)
            self.assert_refused(w, words, "attn_mask" if "neither" not in words else "mask")
            self.assertEqual(w.calls, [])

    def test_documents_in_one_row(self):
        """The last of them is not the whole: what the last query does not see is no padding if
        others see it."""
        n = 20
        document = torch.arange(n) >= 12
        apart = document[:, None] != document[None]
        ahead = torch.ones(n, n, dtype=torch.bool).triu(1)
        x = torch.randn(2, n, 16)
        for model in (models.encoder().eval(), models.encoder(dropout=0.1).train()):
            for hidden in (apart, apart | ahead):
                for mask in (hidden, torch.zeros(n, n).masked_fill(hidden, -math.inf)):
                    with torch.no_grad(), esscher.watch(model) as w:
                        model(x, mask=mask)
                    self.assertEqual(w.calls, [])
                    self.assert_refused(w, "documents packed into one row", "entries 0, 1:")

    def test_what_is_seen_of_what_the_last_query_does_not_see(self):
        """Sinks and a window, and queries of other tokens that see other keys, where no outputs can
        be checked."""
        n = 20
        back = torch.arange(n)[:, None] - torch.arange(n)[None]
        window = (back < 0) | (back >= 4) & (torch.arange(n) >= 3)
        model = nn.MultiheadAttention(16, 4, dropout=0.1, batch_first=True).train()
        x, others = torch.randn(1, n, 16), torch.randn(1, 7, 16)
        some = torch.zeros(7, n, dtype=torch.bool)
        some[-1, 12:] = True
        for query, hidden in ((x, window), (others, some)):
            with esscher.watch(model) as w:
                model(query, x, x, attn_mask=hidden)
            self.assertEqual(w.calls, [])
            self.assert_refused(w, "neither causal")

    def test_queries_at_padding_that_see_nothing(self):
        """To the left or the right, and all of an entry: that one alone is refused."""
        model = nn.MultiheadAttention(16, 4, dropout=0.1, batch_first=True).train()
        x = torch.randn(4, 9, 16)
        real = torch.ones(4, 9, dtype=torch.bool)
        real[1, :3] = real[2] = real[3, 5:] = False
        seen = real[:, :, None] & real[:, None, :]
        for causal in (False, True):
            seen = seen.tril() if causal else seen
            with esscher.watch(model) as w:
                model(x, x, x, attn_mask=(~seen).repeat_interleave(4, 0))
            kept = [(c.batch, c.queries, c.keys, c.causal) for c in w.calls]
            self.assertEqual(kept, [(i, n, n, causal) for i, n in ((0, 9), (1, 6), (3, 5))])
            self.assertEqual([r.entries for r in w.refused], [(2,)])
            self.assert_refused(w, "entry 2: it sees no key")

    def test_one_entry_that_is_all_padding(self):
        model = nn.MultiheadAttention(16, 4, batch_first=True)
        x = torch.randn(3, 6, 16)
        padding = torch.zeros(3, 6, dtype=torch.bool)
        padding[1] = True
        with esscher.watch(model) as w:
            model(x, x, x, key_padding_mask=padding)
        self.assertEqual([c.batch for c in w.calls], [0, 2])
        self.assert_refused(w, "call 0, entry 1: it sees no key", "skip_refused=True")
        exact = copy.deepcopy(model).double()
        _, told = exact(*[x.double()] * 3, average_attn_weights=False)
        rows = models.of_layer(w.measure(skip_refused=True), 0, batch=2)
        self.assertLess(models.largest_difference(rows, told[2]), CLOSE)

    def test_numbers_that_are_none(self):
        """NaN that comes in is called so, whatever can be checked; at padding nobody minds it."""
        for dropout in (0.0, 0.1):
            model = nn.MultiheadAttention(16, 4, dropout=dropout, batch_first=True).train()
            x = torch.randn(2, 6, 16)
            x[1, 2] = math.nan
            with esscher.watch(model) as w:
                model(x, x, x)
            self.assertEqual([c.batch for c in w.calls], [0])
            self.assert_refused(w, "entry 1: its queries hold NaN")
        padding = torch.zeros(2, 6, dtype=torch.bool)
        padding[1, 2] = True
        with esscher.watch(model) as w:
            model(x, x, x, key_padding_mask=padding)
        self.assertEqual((w.refused, [c.keys for c in w.calls]), ([], [6, 5]))

    def test_other_lengths_layouts_and_widths(self):
        query, key, value = torch.randn(9, 2, 12), torch.randn(14, 2, 10), torch.randn(14, 2, 6)
        model = nn.Sequential()
        model.add_module("cross", nn.MultiheadAttention(12, 3, kdim=10, vdim=6))
        nn.init.normal_(model.cross.in_proj_bias)
        with esscher.watch(model) as w:
            model.cross(query, key, value, need_weights=False)
        exact = copy.deepcopy(model.cross).double()
        _, told = exact(query.double(), key.double(), value.double(), average_attn_weights=False)
        for entry in (0, 1):
            self.assert_weights(w, [told[entry]], entry)
        # without a batch, and keys at padding while all queries are kept
        padding = torch.arange(14) >= 9
        one = [x[:, 0] for x in (query, key, value)]
        with esscher.watch(model) as w:
            model.cross(*one, key_padding_mask=padding)
        _, told = exact(
            *(x.double() for x in one), key_padding_mask=padding, average_attn_weights=False
        )
        self.assertEqual((w.calls[0].queries, w.calls[0].keys), (9, 9))
        self.assert_weights(w, [told[..., :9]])

    def test_queries_of_other_tokens_are_kept(self):
        """As many as keys, by chance: keys at padding say nothing about them."""
        model = nn.MultiheadAttention(8, 2, batch_first=True)
        query, key = torch.randn(1, 10, 8), torch.randn(1, 10, 8)
        padding = torch.arange(10)[None] >= 6
        with esscher.watch(model) as w:
            model(query, key, key, key_padding_mask=padding)
        self.assertEqual((w.calls[0].queries, w.calls[0].keys), (10, 6))
        _, told = copy.deepcopy(model).double()(
            query.double(), key[:, :6].double(), key[:, :6].double(), average_attn_weights=False
        )
        self.assert_weights(w, [told[0]])

    def test_it_is_caught_once_where_it_calls_the_function(self):
        """As torch 2 does, when nobody wants weights."""
        inner = F.multi_head_attention_forward

        def forward(*args, **kwargs):
            F.scaled_dot_product_attention(*[torch.randn(1, 2, 3, 4)] * 3)
            return inner(*args, **kwargs)

        model = nn.MultiheadAttention(8, 2)
        with sdpa(), unittest.mock.patch.object(F, "multi_head_attention_forward", forward):
            with esscher.watch(model) as w:
                model(*[torch.randn(5, 1, 8)] * 3)
        self.assertEqual([c.place for c in w.calls], ["MultiheadAttention"])

    def test_hooks_of_others(self):
        """They change inputs behind our back: seen where outputs are, else refused."""
        for dropout, words in ((0.0, "are not the attention"), (0.1, "hooks may change")):
            model = nn.MultiheadAttention(8, 2, dropout=dropout)
            model.register_forward_pre_hook(lambda module, inputs: (2 * inputs[0], *inputs[1:]))
            with esscher.watch(model) as w:
                model(*[torch.randn(5, 1, 8)] * 3)
            self.assert_refused(w, words)
        model = models.encoder().eval()
        model.layers[1].register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
        with torch.no_grad(), esscher.watch(model) as w:
            model(torch.randn(1, 9, 16))
        self.assertEqual([c.layer for c in w.calls], [0])
        self.assert_refused(w, "layers.1.self_attn", "are not the attention")

    def test_a_layer_that_does_something_else(self):
        """It has torch's forward, and a block of its own: no fast path, no MultiheadAttention."""

        class Layer(nn.TransformerEncoderLayer):
            def _sa_block(self, x, *masks, **options):
                return x.cumsum(1) / 10

        model = Layer(16, 4, 32, dropout=0.0, batch_first=True).train()
        with esscher.watch(model) as w:
            model(torch.randn(1, 9, 16))
        self.assert_refused(w, "are not the attention")

    def test_a_class_made_from_it_that_does_something_else(self):
        """Not seen, and not left out of tables without a word."""

        class Other(nn.MultiheadAttention):
            def forward(self, x):
                return super().forward(2 * x, x, x)

        model = nn.Sequential(models.encoder(layers=1, dropout=0.0), Other(16, 4, batch_first=True))
        with esscher.watch(model) as w:
            model(torch.randn(1, 9, 16))
        self.assertEqual([c.module for c in w.calls], ["0.layers.0.self_attn"])
        self.assert_refused(w, "Other is made from MultiheadAttention")

    def test_keys_that_are_no_tokens(self):
        for option in ("add_bias_kv", "add_zero_attn"):
            model = nn.MultiheadAttention(8, 2, **{option: True})
            with esscher.watch(model) as w:
                model(*[torch.randn(5, 1, 8)] * 3)
            self.assert_refused(w, "(model)", option)


class Projections(Watching):
    """Modules in the layout of Hugging Face, eager."""

    def test_grouped_and_causal(self):
        for scaling in (None, 0.11, 1.0):
            model = models.Decoder(scaling=scaling)
            x = torch.randn(2, 21, 16)
            plain = model(x)
            plain.sum().backward()
            wanted = gradients(model)
            model.zero_grad()
            with esscher.watch(model) as w:
                watched = model(x)
            watched.sum().backward()
            self.assertTrue(torch.equal(plain, watched))
            self.assertTrue(all(map(torch.equal, wanted, gradients(model))))
            exact = copy.deepcopy(model).double()
            exact(x.double())
            for entry in (0, 1):
                self.assert_weights(w, exact.weights(entry), entry)
            self.assertEqual(w.layers, {0: "layers.0.self_attn", 1: "layers.1.self_attn"})
            shape = w.result.tables["shape"]
            self.assertEqual((shape["heads"][0], shape["kv_heads"][0]), (4, 2))
            with self.assertLogs("esscher") as remarks:
                w.measure()
            self.assertEqual(len(remarks.output), 1)  # of four calls
            for call in w.calls:
                self.assertEqual((call.place, call.causal), ("projections", True))
                self.assertAlmostEqual(call.scale, 0.5 if scaling is None else scaling)

    def test_additive_mask_and_padding(self):
        model = models.Bert()
        x = torch.randn(2, 15, 16)
        mask = torch.zeros(2, 1, 1, 15)
        mask[0, ..., 11:] = torch.finfo(torch.float32).min
        with esscher.watch(model) as w:
            model(x, attention_mask=mask)
        for entry, kept in ((0, 11), (1, 15)):
            _, told = copy.deepcopy(model).double()(x[entry : entry + 1, :kept].double())
            self.assert_weights(w, told, entry)

    def test_rotary_positions_are_refused(self):
        x = torch.randn(1, 12, 16)
        named = models.Decoder(positions="named")
        with esscher.watch(named) as w:
            named(x)
        self.assert_refused(w, "layers.0.self_attn", "rotary positions (rotary_emb)", "sdpa")
        # nothing in this one is called rotary: its outputs give it away
        unnamed = models.Decoder(positions="unnamed")
        with esscher.watch(unnamed) as w:
            unnamed(x)
        self.assert_refused(
            w, "layers.1.self_attn", "are not the attention", "positions", "another order",
            "not called attention_mask", "sdpa",
        )  # fmt: skip
        self.assertNotIn("skip_refused", refusal(w).hint)  # there is nothing else
        self.assertEqual(w.calls, [])

    def test_a_cache_is_refused(self):
        model = models.Decoder()
        with torch.no_grad(), esscher.watch(model) as w:
            model(torch.randn(1, 8, 16), use_cache=True)
            model(torch.randn(1, 1, 16), use_cache=True)
        self.assertEqual([c.call for c in w.calls], [0, 0])
        self.assertEqual([r.call for r in w.refused], [1, 1])
        self.assert_refused(w, "call 1", "a cache")
        self.assertEqual(len(w.measure(skip_refused=True).tables["rows"]), 8)

    def test_what_the_layout_does_not_say(self):
        model = models.Bert()
        del model.num_attention_heads
        model.forward = lambda x: model.value(model.key(model.query(x)))
        with esscher.watch(model) as w:
            model(torch.randn(1, 4, 16))
        self.assert_refused(w, "how many heads")
        model.forward = lambda x: model.value(model.query(x))
        with esscher.watch(model) as w:
            model(torch.randn(1, 4, 16))
        self.assert_refused(w, "key was not called")

    def test_bfloat16(self):
        model = models.Decoder(layers=1).bfloat16()
        x = torch.randn(1, 19, 16).bfloat16()
        with esscher.watch(model) as w:
            plain = model(x)
        self.assertTrue(torch.equal(plain, model(x)))
        self.assertEqual(np.load(w.calls[0].files[0]).dtype, np.float32)
        # weights of the queries and keys that it has, rounded as they are, and not of its scores
        attention = model.layers[0]["self_attn"]
        inner = model.layers[0]["norm"](x)
        q, k = (models.by_heads(p(inner), 4).double() for p in (attention.q_proj, attention.k_proj))
        scores = q @ k.repeat_interleave(2, 1).transpose(-1, -2) / 2
        scores = scores.masked_fill(~torch.ones(19, 19, dtype=torch.bool).tril(), -math.inf)
        self.assert_weights(w, [scores.softmax(-1)[0]])

    def test_outputs_that_cannot_tell(self):
        """Of equal weights bf16 says nothing: with rotary positions it would be the same."""
        for positions in ("", "unnamed"):
            model = models.Decoder(layers=1, positions=positions, scaling=1e-3).bfloat16()
            with esscher.watch(model) as w:
                model(torch.randn(1, 19, 16).bfloat16())
            self.assert_refused(w, "cannot tell", "f32")
        model = models.Decoder(layers=1, scaling=1e-9)
        with esscher.watch(model) as w:
            model(torch.randn(1, 19, 16))
        self.assertEqual((w.refused, len(w.calls)), ([], 1))

    def test_queries_of_other_tokens_are_kept(self):
        """As many as keys, by chance: keys at padding say nothing about them."""
        model = models.Bert()
        x, others = torch.randn(2, 10, 16), torch.randn(2, 10, 16)
        mask = torch.zeros(2, 1, 1, 10)
        mask[1, ..., 6:] = -math.inf
        for tokens, queries in ((others, 10), (None, 6)):
            with esscher.watch(model) as w:
                model(x, mask, tokens)
            exact = copy.deepcopy(model).double()
            others = None if tokens is None else tokens.double()
            _, told = exact(x.double(), mask.double(), others)
            self.assertEqual((w.calls[1].queries, w.calls[1].keys), (queries, 6))
            self.assert_weights(w, [told[1, :, :queries]], batch=1)

    def test_equal_values_cannot_tell(self):
        """Their average is the same under any weights, in f32 too: here those of rotary positions."""
        model = models.Decoder(layers=1, positions="unnamed")
        nn.init.zeros_(model.layers[0]["self_attn"].v_proj.weight)
        with esscher.watch(model) as w:
            model(torch.randn(1, 19, 16))
        self.assert_refused(w, "cannot tell", "values that differ")


class Functional(Watching):
    """torch.nn.functional.scaled_dot_product_attention; on torch 1.13 a stand-in of that name."""

    def test_documents_in_one_row(self):
        class Model(nn.Module):
            def forward(self, x, **options):
                return F.scaled_dot_product_attention(x, x, x, **options)

        document = torch.arange(20) // 7
        seen = document[:, None] == document[None]
        model = Model()
        for mask in (seen, seen.tril(), torch.zeros(20, 20).masked_fill(~seen, -math.inf)):
            for dropout in (0.0, 0.5):
                with sdpa(), esscher.watch(model) as w:
                    model(torch.randn(1, 2, 20, 8), attn_mask=mask, dropout_p=dropout)
                self.assertEqual(w.calls, [])
                self.assert_refused(w, "documents packed into one row")

    def test_rotary_and_causal(self):
        model = models.Decoder(positions="named", sdpa=True)
        x = torch.randn(2, 33, 16)
        with sdpa():
            own = F.scaled_dot_product_attention
            plain = model(x)
            with esscher.watch(model) as w:
                watched = model(x)
            self.assertIs(F.scaled_dot_product_attention, own)
            self.assertTrue(torch.equal(plain, watched))
            exact = copy.deepcopy(model).double()
            exact(x.double())
        for entry in (0, 1):
            self.assert_weights(w, exact.weights(entry), entry)
        for call in w.calls:
            self.assertEqual((call.causal, call.module), (True, f"layers.{call.layer}.self_attn"))
            self.assertEqual(call.place, "scaled_dot_product_attention")

    def test_decoding_with_a_cache(self):
        model = models.Decoder(sdpa=True).double()
        x = torch.randn(1, 9, 16).double()
        told = []
        with sdpa(), torch.no_grad(), esscher.watch(model) as w:
            for tokens in (x[:, :6], x[:, 6:7], x[:, 7:]):
                model(tokens, use_cache=True)
                told.append(model.weights())
        for call, weights in enumerate(told):
            self.assert_weights(w, weights, call=call)
        self.assertEqual([(c.queries, c.keys) for c in w.calls[::2]], [(6, 6), (1, 7), (2, 9)])

    def test_one_token_is_no_riddle(self):
        """Which dimension is heads is known: the library need not remark on what it takes."""
        model = models.Decoder(layers=1, sdpa=True)
        with sdpa(), esscher.watch(model) as w:
            model(torch.randn(1, 1, 16))
        with unittest.mock.patch("esscher._library._logger.log") as log:
            w.measure()
        said = [call.args[-1] for call in log.call_args_list]
        self.assertEqual([text for text in said if "layout" in text], [])

    def test_batches_that_are_broadcast(self):
        class Model(nn.Module):
            def forward(self, *tensors):
                return F.scaled_dot_product_attention(*tensors)

        one, two = torch.randn(1, 2, 10, 8), torch.randn(2, 2, 10, 8)
        model = Model()
        for tensors in ((one, two, two), (two, one, one), (two, two, one)):
            with sdpa(), esscher.watch(model) as w:
                model(*tensors)
            self.assertEqual(w.calls, [])
            self.assert_refused(w, "equal batches")

    def test_padding_to_the_left(self):
        """Rows of padding have nothing to see: they see everything, as transformers has it, or
        themselves."""
        model = models.Decoder(sdpa=True)
        x = torch.randn(2, 11, 16)
        for shown in (torch.ones(11, 11), torch.eye(11)):
            seen = torch.ones(2, 1, 11, 11, dtype=torch.bool).tril()
            seen[1, :, 4:, :4] = False
            seen[1, :, :4] = shown[:4].bool()
            with sdpa():
                with esscher.watch(model) as w:
                    model(x, attention_mask=seen)
                exact = copy.deepcopy(model).double()
                for entry, first in ((0, 0), (1, 4)):
                    exact(x[entry : entry + 1, first:].double())
                    self.assert_weights(w, exact.weights(), entry)

    def test_fewer_queries_than_keys(self):
        """is_causal counts from the first key: there the others are not seen."""

        class Model(nn.Module):
            def forward(self, q, k, v, **options):
                return F.scaled_dot_product_attention(q, k, v, **options)

        q, k, v = (torch.randn(1, heads, n, 8) for heads, n in ((4, 5), (2, 9), (2, 9)))
        with sdpa():
            with esscher.watch(Model()) as w:
                model = Model()  # another one: not watched
                model(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1))
            self.assertRaises(esscher.EmptyError, w.measure)
            with esscher.watch(model) as w:
                F.scaled_dot_product_attention(q, q, q)  # by nobody
                model(q, k, v, is_causal=True, enable_gqa=True, scale=0.3)
                model(q[0], q[0], q[0])
                model(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1), dropout_p=0.5)
        self.assertEqual([(c.call, c.keys) for c in w.calls], [(0, 5), (2, 9)])
        self.assert_refused(w, "which dimension is heads")
        keys = k[0, :, :5].repeat_interleave(2, 0).double()
        scores = q[0].double() @ keys.transpose(-1, -2) * 0.3
        scores = scores.masked_fill(~torch.ones(5, 5, dtype=torch.bool).tril(), -math.inf)
        rows = models.of_layer(w.measure(skip_refused=True), 0)
        self.assertLess(models.largest_difference(rows, scores.softmax(-1)), CLOSE)

    def test_what_is_no_attention_is_refused(self):
        class Model(nn.Module):
            def forward(self, x):
                return F.scaled_dot_product_attention(x, x, x)

        def wrong(query, key, value):
            return models.stand_in(query, key, value, scale=0.4)

        before = getattr(F, "scaled_dot_product_attention", None)
        F.scaled_dot_product_attention = wrong
        try:
            with esscher.watch(Model()) as w:
                pass
            model = Model()
            with esscher.watch(model) as w:
                model(torch.randn(1, 2, 10, 8))
        finally:
            if before is None:
                del F.scaled_dot_product_attention
            else:
                F.scaled_dot_product_attention = before
        self.assert_refused(w, "are not the attention")


class Bounds(Watching):
    """What is kept, for how long, and how much."""

    def setUp(self):
        super().setUp()
        self.model = models.encoder(layers=3).eval()
        self.x = torch.randn(2, 30, 16)

    def watched(self, **options):
        with torch.no_grad(), esscher.watch(self.model, **options) as w:
            self.model(self.x)
        return w

    def test_layers_heads_and_last(self):
        whole = self.watched()
        w = self.watched(layers=[0, "layers.2*"], heads=[3, 1], last=30)
        self.assertEqual(w.layers, whole.layers)
        rows = w.result.tables["rows"]
        self.assertEqual(list(rows["layer"]), [0] * 4 + [2] * 4)
        self.assertEqual(list(rows["head"]), [3, 1] * 4)
        self.assertEqual(rows["module"][-1], "layers.2.self_attn")
        for layer in (0, 2):
            wanted = models.of_layer(whole.result, layer)["entropy"][[3, 1]]
            np.testing.assert_array_equal(models.of_layer(w.result, layer)["entropy"], wanted)
        few = self.watched(last=5)
        self.assertEqual({c.queries for c in few.calls}, {5})
        told = models.encoder_weights(copy.deepcopy(self.model).double(), self.x.double())
        self.assert_weights(few, [weights[:, -5:] for weights in told])
        self.assert_refused(self.watched(heads=[4]), "call 0, entries 0, 1: heads [4]")
        self.x = torch.randn(6, 9, 16)
        self.assert_refused(self.watched(heads=[4]), "6 entries from 0 to 5: heads [4]")

    def test_numbers_of_numpy_and_what_are_none(self):
        w = self.watched(layers=np.int64(1), heads=np.array([2, 0]), last=np.int32(4))
        self.assertEqual({(c.layer, c.heads, c.queries) for c in w.calls}, {(1, (2, 0), 4)})
        self.assertEqual({c.heads for c in self.watched(heads=np.int64(1)).calls}, {(1,)})
        for bad in (dict(heads="0"), dict(heads=[1.5]), dict(layers=0.5), dict(last="2")):
            with self.subTest(bad), self.assertRaises(esscher.ArgumentTypeError):
                self.watched(**bad)
        for bad in (dict(heads=-1), dict(layers=[-1]), dict(last=0), dict(max_bytes=-1)):
            with self.subTest(bad), self.assertRaises(esscher.ArgumentError):
                self.watched(**bad)

    def test_close_keeps_a_result(self):
        w = self.watched()
        result = w.result
        w.close()
        self.assertIs(w.result, result)
        self.assertEqual((w.calls, w.bytes), ([], 0))
        self.assertEqual(repr(w), "<esscher watch: 0 calls of 0 layers caught, 0 bytes>")
        with self.assertRaisesRegex(esscher.EmptyError, "was closed"):
            w.measure()
        with torch.no_grad(), w:
            self.model(self.x)
        self.assertIsNot(w.result, result)
        other = self.watched()
        other.close()
        with self.assertRaisesRegex(esscher.EmptyError, "was closed"):
            other.result

    def test_layers_that_are_none(self):
        with self.assertRaisesRegex(esscher.EmptyError, "was wanted(.|\n)*0 layers.0.self_attn"):
            self.watched(layers="decoder.*").measure()

    def test_what_is_refused_later_counts(self):
        """Tables that were asked for before do not stand for what ran after them."""
        w = self.watched()
        self.assertEqual(len(w.result), 6)
        bias = torch.randn(30, 30)
        with torch.no_grad(), w:
            self.model(self.x, mask=bias)
        self.assertEqual((len(w.calls), len(w.refused)), (6, 3))
        with self.assertRaises(esscher.UnsupportedError):
            w.result

    def test_max_bytes(self):
        one = 3 * 4 * 30 * 16  # q, k, v in f32
        w = self.watched(max_bytes=3 * one)
        self.assertEqual((len(w.calls), w.bytes), (3, 3 * one))
        self.assertEqual(sum(map(os.path.getsize, w.calls[0].files)), one + 3 * 128)
        self.assert_refused(w, "max_bytes = 17280", "layers.1.self_attn")

    def test_folders(self):
        w = self.watched()
        folder = os.path.dirname(w.calls[0].files[0])
        self.assertTrue(os.path.isdir(folder))
        del w
        gc.collect()
        self.assertFalse(os.path.exists(folder))
        with tempfile.TemporaryDirectory() as given:
            w = self.watched(folder=given, layers=0)
            w.close()
            self.assertEqual(len(os.listdir(given)), 6)
            self.assert_refused(self.watched(folder=given, layers=0), "FileExistsError")

    def test_keywords_of_measure(self):
        w = self.watched(layers=0)
        rows = w.measure(prefixes=[10, 30], top_k=[2]).tables["rows"]
        self.assertEqual(list(rows["n"][:2]), [10, 30])
        self.assertIn("top_mass", " ".join(rows.dtype.names))
        for keyword in ("scale", "q", "out"):
            self.assertRaises(esscher.ArgumentError, w.measure, **{keyword: 1})

    def test_views(self):
        w = self.watched()
        text = str(w.result).splitlines()
        self.assertEqual(len(text), 1 + 3 * 2 * 4)
        self.assertEqual(text[0].split()[:5], ["layer", "module", "call", "batch", "head"])
        self.assertEqual(w.result._repr_html_().count("<tr>"), 1 + 20)
        self.assertIn("<p>4 more rows</p>", w.result._repr_html_())
        self.assertIn("<td>layers.2.self_attn</td>", w.result._repr_html_())
        self.assertEqual(w.result.columns()["ess"].title, "ESS")
        heads = w.result.tables["heads"]
        self.assertEqual(heads.dtype.names[:4], ("layer", "module", "call", "batch"))
        self.assertTrue(np.isfinite(heads["horizon"]).all())
        layers = w.result.tables["layers"]
        self.assertEqual(list(layers["layer"]), [0, 0, 1, 1, 2, 2])
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is not installed")
        frame = w.result.to_pandas()
        self.assertEqual(len(frame), 24)
        self.assertEqual(frame.groupby(["module", "batch"]).size().max(), 4)

    def test_few_rows_of_many_are_shown(self):
        self.x = torch.randn(4, 9, 16)
        w = self.watched()
        text = str(w.result).splitlines()
        self.assertEqual(len(text), 1 + 40 + 1)
        self.assertEqual(text[-1], "  8 more rows: w.result.text(full=True)")
        self.assertEqual(len(w.result.text(full=True).splitlines()), 1 + 3 * 4 * 4)

    def test_exceptions_clean_up(self):
        class Broken(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def forward(self, x):
                raise ZeroDivisionError(self.inner(x).shape)

        model = Broken(self.model)
        with self.assertRaises(ZeroDivisionError), sdpa(), torch.no_grad():
            with esscher.watch(model) as w:
                try:
                    model(self.x)
                except ZeroDivisionError:
                    folder = os.path.dirname(w.calls[0].files[0])
                    raise
        self.assertIs(nn.Module.__call__, self.call)
        self.assertFalse(os.path.exists(folder))
        self.assertRaises(esscher.EmptyError, w.measure)
        self.assertEqual(len(self.watched().calls), 6)

    def test_one_at_a_time(self):
        with esscher.watch(self.model):
            with self.assertRaisesRegex(RuntimeError, "another esscher.watch"):
                with esscher.watch(self.model):
                    pass
            self.assertIsNot(nn.Module.__call__, self.call)

    def test_nothing_is_disturbed_by_what_cannot_be_kept(self):
        model = models.Bert().to("meta")
        with esscher.watch(model) as w:
            out, _ = model(torch.randn(1, 4, 16, device="meta"))
        self.assertEqual(out.shape, (1, 4, 16))
        self.assert_refused(w, "could not be kept")

    def test_models_that_cannot_be_seen_into(self):
        scripted = torch.jit.script(nn.Linear(2, 2))
        for wrong, words in (
            (scripted, "TorchScript"),
            (nn.DataParallel(self.model), "DataParallel"),
            (len, "takes a torch.nn.Module"),
        ):
            with self.assertRaisesRegex(TypeError, words) as raised:
                esscher.watch(wrong)
            self.assertIsInstance(raised.exception, esscher.EsscherError)

    def test_without_torch(self):
        code = (
            "import sys; sys.modules['torch'] = None\n"
            "import esscher\n"
            "try: esscher.watch(None)\n"
            "except ImportError as error: print(error)\n"
        )
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertIn("needs PyTorch", told.stdout, told.stderr)
        code = "import sys, esscher; print('torch' in sys.modules)"
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(told.stdout.strip(), "False", told.stderr)


class Page(unittest.TestCase):
    def test_the_example_prints_what_the_page_says(self):
        root = Path(__file__).parent.parent.parent
        example = root / "examples" / "watch.py"
        page = (root / "docs" / "PYTHON.md").read_text("utf-8").split("## Watch a running model")[1]
        pair = r"```python\n(.*?)```\n\n```text\n(.*?)```"
        (code, wanted), *_ = re.findall(pair, page, re.DOTALL)
        self.assertEqual(example.read_text("utf-8").split("\n\n", 1)[1], code)
        told = subprocess.run([sys.executable, str(example)], capture_output=True, text=True)
        self.assertEqual(told.returncode, 0, told.stderr)
        lines = told.stdout.splitlines()
        self.assertEqual(lines[0], wanted.splitlines()[0])
        self.assertEqual(len(lines), len(wanted.splitlines()))
        for line, other in zip(lines[1:], wanted.splitlines()[1:]):
            self.assertEqual(line.split()[:6], other.split()[:6])
            numbers = [[float(x) for x in text.split()[6:]] for text in (line, other)]
            np.testing.assert_allclose(*numbers, rtol=1e-3)  # another CPU rounds otherwise


if __name__ == "__main__":
    unittest.main()
