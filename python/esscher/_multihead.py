# SPDX-License-Identifier: Apache-2.0
"""The attention of ``torch.nn.MultiheadAttention``, from its inputs and weights.

Its projections are done again as it does them: torch keeps them to itself, and in a fast path, its
own or that of the layer around it, nothing of Python runs between input and output. Outputs are
followed through what comes after the attention, so that they can be checked.

Only imported by ``watch``: this needs torch.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ._masks import Masks, Refused
from ._verify import Caught, Entries, Entry, Finish, by_heads, checked, exact, given_by_name
from ._verify import scale_of, shape_of

torch: Any = import_module("torch")

_CAUSES = (
    "hooks, or a method that is not torch's, change what it multiplies or what it makes of it"
)


class _Batch(NamedTuple):
    """A call with the batch first: inputs (batch, n, width), and what came out of it."""

    inputs: List[Any]
    mask: Optional[Any]
    padding: Optional[Any]
    theirs: Optional[Any]
    """None: it cannot be checked."""
    same: bool
    """Queries and keys are of the same tokens."""
    first: int = 0
    """Number of its first entry."""


def is_multihead(module: Any) -> bool:
    """torch's own, not a class made from it that does something else."""
    multihead = torch.nn.MultiheadAttention
    return isinstance(module, multihead) and type(module).forward is multihead.forward


def is_encoder(module: Any) -> bool:
    """The same of the layer that may go a fast path around its attention."""
    layer = torch.nn.TransformerEncoderLayer
    mine = isinstance(module, layer) and type(module).forward is layer.forward
    return mine and is_multihead(module.self_attn)


def of_multihead(module: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any], out: Any) -> Entries:
    """A call of the module itself."""
    given = given_by_name(module, args, kwargs)
    inputs = [given[name] for name in ("query", "key", "value")]
    dropout = module.training and module.dropout
    if dropout and module._forward_pre_hooks:
        raise Refused("hooks may change its inputs, and with dropout outputs cannot be checked")
    call = _Batch(
        inputs,
        given.get("attn_mask"),
        given.get("key_padding_mask"),
        None if dropout else out[0],
        inputs[0] is inputs[1],
    )

    def finish(outputs: Any, _: Any) -> Any:
        return _linear(outputs.flatten(1), module.out_proj)[:, None]

    for batch in _batches(call, module.batch_first):
        yield from _attention(module, batch, batch.inputs, finish)


def of_encoder(layer: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any], out: Any) -> Entries:
    """A TransformerEncoderLayer that did all of its work in one call of torch's."""
    given = given_by_name(layer, args, kwargs)
    src = given["src"]
    call = _Batch([src], given.get("src_mask"), given.get("src_key_padding_mask"), out, True)

    def finish(outputs: Any, x: Any) -> Any:
        attended = _linear(outputs.flatten(1), layer.self_attn.out_proj)
        if layer.norm_first:
            x = x + attended
            return (x + _feed(layer, _norm(x, layer.norm2)))[:, None]
        x = _norm(x + attended, layer.norm1)
        return _norm(x + _feed(layer, x), layer.norm2)[:, None]

    for batch in _batches(call, layer.self_attn.batch_first):
        x = _normed(batch.inputs[0], layer.norm1) if layer.norm_first else batch.inputs[0]
        yield from _attention(layer.self_attn, batch, [x] * 3, finish)


def _batches(call: _Batch, batch_first: bool) -> Iterator[_Batch]:
    """A call as one with the batch first. Nested tensors, batches without padding, one by one."""
    tensors = [*call.inputs] if call.theirs is None else [*call.inputs, call.theirs]
    if tensors[0].is_nested:
        for number, parts in enumerate(zip(*(x.unbind() for x in tensors))):
            *inputs, theirs = (x[None] for x in parts)
            yield _Batch(inputs, None, None, theirs, call.same, number)
        return
    if tensors[0].dim() == 2:
        tensors = [x[None] for x in tensors]
    elif not batch_first:
        tensors = [x.transpose(0, 1) for x in tensors]
    count = len(call.inputs)
    theirs = None if call.theirs is None else tensors[count]
    yield call._replace(inputs=tensors[:count], theirs=theirs)


def _attention(module: Any, batch: _Batch, inputs: List[Any], finish: Finish) -> Entries:
    """What the module multiplies, made from its inputs as it makes it. ``finish`` takes outputs,
    and the inputs beside them, to where the model's can be seen."""
    if module.bias_k is not None or module.add_zero_attn:
        raise Refused("add_bias_kv and add_zero_attn add a key that is no token's")
    q, k, v = _projected(module, inputs)
    masks = Masks(shape_of(q, k))
    mask, padding = batch.mask, batch.padding
    if mask is not None:
        mask = mask.view(shape_of(q, k)) if mask.dim() == 3 else mask
        masks.add(mask, "attn_mask", hides=True)
    if padding is not None:
        padding = padding if padding.dim() == 2 else padding[None]
        masks.add(padding[:, None, None, :], "key_padding_mask", hides=True)

    def catch(at: int) -> Caught:
        return checked(
            Entry(q[at], k[at], v[at]),
            [scale_of(q)],
            [masks.sight(at, tokens_ask=batch.same)],
            None if batch.theirs is None else batch.theirs[at][:, None],
            _CAUSES,
            finish=finish,
            beside=batch.inputs[0][at],
        )

    for at in range(len(q)):
        yield batch.first + at, partial(catch, at)


def _projected(module: Any, inputs: List[Any]) -> List[Any]:
    """Queries, keys and values (batch, heads, n, d) of inputs (batch, n, width)."""
    if module.in_proj_weight is not None:
        weights = module.in_proj_weight.chunk(3)
    else:
        weights = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    linear = torch.nn.functional.linear
    return [by_heads(linear(x, w, b), module.num_heads) for x, w, b in zip(inputs, weights, biases)]


# ---- what comes after it ----
# As precise as the model has it: copies of all weights in f64 would take more than the model does.


def _linear(x: Any, module: Any) -> Any:
    return exact(torch.nn.functional.linear(x.to(module.weight), module.weight, module.bias))


def _norm(x: Any, module: Any) -> Any:
    return exact(_normed(x.to(module.weight), module))


def _normed(x: Any, module: Any) -> Any:
    layer_norm = torch.nn.functional.layer_norm
    return layer_norm(x, module.normalized_shape, module.weight, module.bias, module.eps)


def _feed(layer: Any, x: Any) -> Any:
    return _linear(layer.activation(_linear(x, layer.linear1)), layer.linear2)
