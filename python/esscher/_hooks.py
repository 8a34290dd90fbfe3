# SPDX-License-Identifier: Apache-2.0
"""Where a PyTorch model computes attention, and what with.

For the length of a ``with`` two names of torch are ours: ``torch.nn.Module.__call__``, which every
module of a model goes through, and ``torch.nn.functional.scaled_dot_product_attention`` where this
torch has it. No hook is set on any module: torch leaves its fast paths where there are hooks, and
outputs would have other bits. Each call of the model is done by torch itself, with the arguments
that it was given, and looked at afterwards.

Three places give queries, keys and values:

- ``scaled_dot_product_attention``, which is given them as they are multiplied;
- ``torch.nn.MultiheadAttention``, whose projections are done again from its inputs and weights,
  also where ``torch.nn.TransformerEncoderLayer`` takes a fast path around it;
- modules with a projection each for queries, keys and values (``_LAYOUTS``), whose outputs are
  caught. What such a module does between its projections and the softmax is unknown: positions,
  norms, another scale. So its attention is computed again for some queries, in f64, and held
  against what the module hands on; where the two differ the layer is refused.

The same check is made at the other two wherever the outputs can be seen.

Only imported by ``watch``: this needs torch.
"""

from __future__ import annotations

import math
import re
import threading
from functools import partial
from importlib import import_module
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ._multihead import is_encoder, is_multihead, of_encoder, of_multihead
from ._masks import Masks, Refused, Shape, Sight
from ._verify import Caught, Entries, Entry, by_heads, checked, given_by_name, scale_of, shape_of
from .errors import ArgumentTypeError

torch: Any = import_module("torch")

_SDPA = "scaled_dot_product_attention"

# Attributes of a module that projects queries, keys and values, and what takes its output.
_LAYOUTS: Tuple[Tuple[str, str, str, Tuple[str, ...]], ...] = (
    ("q_proj", "k_proj", "v_proj", ("o_proj", "out_proj", "dense", "c_proj")),  # Llama, BART, CLIP
    ("query", "key", "value", ("out", "dense", "out_proj")),  # BERT, ViT
    ("q_lin", "k_lin", "v_lin", ("out_lin",)),  # DistilBERT
    ("to_q", "to_k", "to_v", ("to_out",)),  # diffusers
    ("q", "k", "v", ("o",)),  # T5
)
_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads")
_SCALES = ("scaling", "scale", "softmax_scale")
_MASKS = ("attention_mask", "attn_mask", "mask")
_ROTARY = re.compile("(^|_)(rotary|rope)|position_embeddings")

_INSTEAD = (
    "a model that calls scaled_dot_product_attention is caught there "
    '(attn_implementation="sdpa" in transformers)'
)

_BETWEEN = (
    "positions, a norm, a bias, a cache or dropout come in between; or its mask is not called "
    f"{', '.join(_MASKS[:-1])} or {_MASKS[-1]}, or hides keys where it is True; or its scale is a "
    "tensor; or its heads share keys in another order"
)

Receiver = Callable[[str, str, Entries], None]
"""Receives the module's name, the place, and what was caught, entry by entry of the batch."""


class _Frame:
    """A module that is running."""

    def __init__(self, module: Any, name: str) -> None:
        self.module = module
        self.name = name
        self.caught = False  # an attention in it was caught, or refused
        self.own = 0  # calls of scaled_dot_product_attention by itself
        self.silent = False  # what runs in it is caught from outside
        self.inputs: Dict[str, Any] = {}  # of its projections, by role: q, k, v, o
        self.outputs: Dict[str, Any] = {}
        self.again = False  # a projection ran twice


class Catcher:
    """Looks at every call of a model while it is open."""

    _open: Optional["Catcher"] = None

    def __init__(self, model: Any, receive: Receiver) -> None:
        if type(model).__module__.startswith("torch.jit"):
            raise _no_model("esscher.watch cannot see into TorchScript", "watch the model it is of")
        if not isinstance(model, torch.nn.Module):
            raise _no_model(
                f"esscher.watch takes a torch.nn.Module, not {type(model).__name__}",
                "the model itself, not its path, its name or its output",
            )
        blind = [type(m).__name__ for m in model.modules() if _is_blind(m)]
        if blind:
            raise _no_model(
                f"esscher.watch cannot see into {blind[0]}", "watch the model inside it"
            )
        self._names = {id(module): name or "(model)" for name, module in model.named_modules()}
        self._model = model  # keeps the numbers above those of its modules
        self._receive = receive
        self._roles = _roles_of(model)
        self._stack: List[_Frame] = []
        self._thread = 0

    def open(self) -> None:
        if Catcher._open is not None:
            raise RuntimeError("another esscher.watch is open: close it first, one at a time")
        Catcher._open = self
        self._thread = threading.get_ident()
        self._stack.clear()
        self._call = torch.nn.Module.__call__
        self._sdpa = getattr(torch.nn.functional, _SDPA, None)
        torch.nn.Module.__call__ = _called(self, self._call)
        if self._sdpa is not None:
            setattr(torch.nn.functional, _SDPA, _attended(self, self._sdpa))

    def close(self) -> None:
        if Catcher._open is not self:
            return
        torch.nn.Module.__call__ = self._call
        if self._sdpa is not None:
            setattr(torch.nn.functional, _SDPA, self._sdpa)
        Catcher._open = None

    # ---- modules ----

    def run(self, call: Any, module: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        name = self._names.get(id(module))
        if name is None or threading.get_ident() != self._thread:
            return call(module, *args, **kwargs)
        frame = _Frame(module, name)
        frame.silent = is_multihead(module) or bool(self._stack and self._stack[-1].silent)
        self._stack.append(frame)
        try:
            out = call(module, *args, **kwargs)
        finally:
            self._stack.pop()
        with torch.no_grad():
            self._look(frame, args, kwargs, out)
        return out

    def _look(
        self, frame: _Frame, args: Tuple[Any, ...], kwargs: Dict[str, Any], out: Any
    ) -> None:
        for owner, role in self._roles.get(id(frame.module), ()):
            for above in reversed(self._stack):
                if id(above.module) == owner:
                    above.again |= role in above.outputs
                    above.inputs[role] = next(iter((*args, *kwargs.values())), None)
                    above.outputs[role] = out
                    break
        if is_multihead(frame.module):
            self._tell(frame, "MultiheadAttention", of_multihead(frame.module, args, kwargs, out))
        elif frame.silent or frame.caught:
            pass
        elif is_encoder(frame.module):
            self._tell(frame, "MultiheadAttention", of_encoder(frame.module, args, kwargs, out))
        elif _layout_of(frame.module) or isinstance(frame.module, torch.nn.MultiheadAttention):
            self._tell(frame, "projections", _of_projections(frame, args, kwargs, out))

    def _tell(self, frame: _Frame, place: str, entries: Entries) -> None:
        name = frame.name
        if is_encoder(frame.module):
            name = self._names[id(frame.module.self_attn)]
        for above in self._stack:
            above.caught = True
        self._receive(name, place, entries)

    # ---- scaled_dot_product_attention ----

    def attended(self, args: Tuple[Any, ...], kwargs: Dict[str, Any], out: Any) -> None:
        if threading.get_ident() != self._thread or not self._stack or self._stack[-1].silent:
            return
        frame = self._stack[-1]
        name = f"{frame.name}#{frame.own}" if frame.own else frame.name
        frame.own += 1
        for above in self._stack:
            above.caught = True
        with torch.no_grad():
            self._receive(name, _SDPA, _of_sdpa(args, kwargs, out))


def _called(catcher: Catcher, call: Any) -> Any:
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        return catcher.run(call, self, args, kwargs)

    return __call__


def _attended(catcher: Catcher, attention: Any) -> Any:
    def scaled_dot_product_attention(*args: Any, **kwargs: Any) -> Any:
        out = attention(*args, **kwargs)
        catcher.attended(args, kwargs, out)
        return out

    return scaled_dot_product_attention


def _no_model(message: str, hint: str) -> ArgumentTypeError:
    return ArgumentTypeError(message, rule="watch.model", hint=hint)


def _is_blind(module: Any) -> bool:
    """Modules whose insides run in other threads or as compiled code."""
    return type(module).__name__ in ("OptimizedModule", "DataParallel")


# ---- torch.nn.functional.scaled_dot_product_attention ----


def _of_sdpa(args: Tuple[Any, ...], kwargs: Dict[str, Any], out: Any) -> Entries:
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given = {**dict(zip(names, args)), **kwargs}
    unknown = set(given) - set(names) - {"scale", "enable_gqa"}
    if unknown:
        raise Refused(f"{_SDPA} was given {min(unknown)}, which is not known here")
    q, k, v = given["query"], given["key"], given["value"]
    if q.dim() != 4:
        raise Refused(
            f"{_SDPA} was given queries of shape {tuple(q.shape)}: which dimension is heads is "
            "not said; with (batch, heads, n, d) it is"
        )
    if not len(q) == len(k) == len(v):
        raise Refused(
            f"{_SDPA} was given batches of {len(q)} queries, {len(k)} keys and {len(v)} values: "
            "which entries belong together is said by equal batches"
        )
    masks = Masks(shape_of(q, k), bool(given.get("is_causal")))
    if given.get("attn_mask") is not None:
        masks.add(given["attn_mask"], "attn_mask")
    scale = given.get("scale")
    scales = [1.0 / math.sqrt(q.shape[-1]) if scale is None else float(scale)]
    theirs = None if given.get("dropout_p") else out

    def catch(number: int) -> Caught:
        return checked(
            Entry(q[number], k[number], v[number]),
            scales,
            [masks.sight(number, tokens_ask=True)],
            None if theirs is None else theirs[number].transpose(0, 1),
            f"what is called {_SDPA} computes something else",
        )

    for number in range(len(q)):
        yield number, partial(catch, number)


# ---- modules that project queries, keys and values ----


def _layout_of(module: Any) -> Optional[Tuple[str, str, str, Tuple[str, ...]]]:
    children = module._modules
    for layout in _LAYOUTS:
        if all(children.get(name) is not None for name in layout[:3]):
            return layout
    return None


def _roles_of(model: Any) -> Dict[int, List[Tuple[int, str]]]:
    """Of each projection, by its id: whose it is, and what it projects."""
    roles: Dict[int, List[Tuple[int, str]]] = {}
    for owner in model.modules():
        layout = _layout_of(owner)
        if not layout:
            continue
        named = list(zip("qkv", layout[:3]))
        named += [("o", name) for name in layout[3] if owner._modules.get(name) is not None][:1]
        for role, name in named:
            roles.setdefault(id(owner._modules[name]), []).append((id(owner), role))
    return roles


def _of_projections(
    frame: _Frame, args: Tuple[Any, ...], kwargs: Dict[str, Any], out: Any
) -> Entries:
    module, inputs, outputs = frame.module, frame.inputs, frame.outputs
    given = given_by_name(module, args, kwargs)
    layout = _layout_of(module)
    if layout is None:
        raise Refused(
            f"{type(module).__name__} is made from MultiheadAttention and has a forward of its "
            "own: what it multiplies is unknown"
        )
    missing = [name for role, name in zip("qkv", layout) if role not in outputs]
    if missing:
        raise Refused(f"{missing[0]} was not called: keys and values come from elsewhere, a cache")
    if frame.again:
        raise Refused(f"{layout[0]}, {layout[1]} or {layout[2]} was called twice in one call")
    rotary = _rotary(module, given)
    if rotary:
        raise Refused(
            f"it has rotary positions ({rotary}), which are applied after {layout[0]}; {_INSTEAD}"
        )
    q, k, v = _split(module, [outputs[role] for role in "qkv"])
    theirs = inputs["o"] if "o" in inputs else out[0] if isinstance(out, (tuple, list)) else out
    same = _same_tokens(inputs["q"], inputs["k"])
    width = q.shape[1] * v.shape[-1]
    if not isinstance(theirs, torch.Tensor) or theirs.shape != (len(q), q.shape[2], width):
        raise Refused(f"what it makes of {layout[0]}, {layout[1]}, {layout[2]} cannot be checked")

    def catch(number: int) -> Caught:
        entry = Entry(q[number], k[number], v[number])
        sights = _sights(given, shape_of(q, k), number, same)
        rows = theirs[number].reshape(q.shape[2], q.shape[1], -1)
        causes = f"{_BETWEEN}; {_INSTEAD}"
        return checked(entry, _scales(module, q), sights, rows, causes, proof=True)

    for number in range(len(q)):
        yield number, partial(catch, number)


def _split(module: Any, parts: Sequence[Any]) -> List[Any]:
    """Outputs of the projections (batch, n, width) by heads; keys and values may have fewer."""
    if any(not isinstance(x, torch.Tensor) or x.dim() != 3 for x in parts):
        raise Refused("its projections do not give (batch, n, heads d)")
    heads = _heads_of(module)
    widths = [x.shape[-1] for x in parts]
    d = widths[0] // heads
    kv_heads = widths[1] // d if d else 0
    if d * heads != widths[0] or kv_heads * d != widths[1] or heads % max(kv_heads, 1):
        raise Refused(f"{heads} heads do not divide projections of widths {widths}")
    if widths[2] % kv_heads:
        raise Refused(f"{kv_heads} heads of keys do not divide values of width {widths[2]}")
    return [by_heads(x, count) for x, count in zip(parts, (heads, kv_heads, kv_heads))]


def _heads_of(module: Any) -> int:
    for holder in (module, getattr(module, "config", None)):
        for name in _HEADS:
            heads = getattr(holder, name, None)
            if isinstance(heads, int) and heads > 0:
                return heads
    raise Refused(f"how many heads it has is not said by {', '.join(_HEADS)}, its own or config's")


def _rotary(module: Any, given: Dict[str, Any]) -> str:
    """The name of what says that a module has rotary positions."""
    for name, value in {**vars(module), **module._modules, **given}.items():
        absent = value is None or (isinstance(value, (int, float)) and not value)
        if _ROTARY.search(name) and not absent:
            return str(name)
    return ""


def _scales(module: Any, q: Any) -> List[float]:
    """Score scales that such a module may have; which of them it has the check says."""
    stated = [getattr(module, name, None) for name in _SCALES]
    return [float(x) for x in stated if isinstance(x, (int, float))] + [scale_of(q), 1.0]


def _same_tokens(a: Any, b: Any) -> bool:
    """Were queries and keys projected from the same numbers, as views of them or as they are?"""
    return a is b or (a.data_ptr() == b.data_ptr() and a.shape == b.shape)


def _sights(given: Dict[str, Any], shape: Shape, entry: int, same: bool) -> List[Sight]:
    """What its queries may see: as its mask says, and besides that nothing behind a query."""
    sights: List[Sight] = []
    refused: Optional[Refused] = None
    for causal in (False, True):
        masks = Masks(shape, causal)
        try:
            for name in _MASKS:
                mask = given.get(name)
                if isinstance(mask, torch.Tensor):
                    padding = mask.dim() == 2 and mask.shape == (shape[0], shape[3])
                    masks.add(mask[:, None, None, :] if padding else mask, name)
            sights.append(masks.sight(entry, tokens_ask=same))
        except Refused as why:
            refused = refused or why
    if refused and not sights:
        raise refused
    return sights
