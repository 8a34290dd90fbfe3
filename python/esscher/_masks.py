# SPDX-License-Identifier: Apache-2.0
"""What the queries of a model see: its masks, read as the study ``measure`` has them.

The study knows four sights: every key, those up to a query's own place, the last W of those, and
W to either side; the last query stands at the last key. A model says the same with tensors of any
shape that broadcasts to (batch, heads, queries, keys). Here a mask is held against the four, a
block of rows at a time, so that nothing of its size is made; one that is none of them is refused.

Only imported by ``watch``: this needs torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Iterator, List, NamedTuple, Optional, Tuple

torch: Any = import_module("torch")

# Numbers that an additive mask has for "not seen": exp(-9000) is 0 in every format. Models write
# -inf, the least number of their format, or -10000, which bfloat16 rounds to -9984.
_UNSEEN = -9000.0

# Entries of a mask that are looked at together.
_BLOCK = 1 << 20


Shape = Tuple[int, int, int, int]
"""(batch, heads, queries, keys)"""


class Refused(Exception):
    """Why the statistics of a layer would not be those of its attention."""


class Sight(NamedTuple):
    """Which keys the queries see, after those at padding have been left out."""

    causal: bool = False
    window: int = 0
    queries: Optional[Any] = None
    """(m) bool: the queries that are kept; None: all."""
    keys: Optional[Any] = None
    """(n) bool: the keys that are kept; None: all."""

    def matrix(self, places: Any, n: int) -> Any:
        """(places, n) bool: what queries that stand at ``places`` of the kept keys see."""
        return _pattern(self.causal, self.window, places, n)


def _pattern(causal: bool, window: int, places: Any, n: int) -> Any:
    ahead = torch.arange(n)[None, :] - places[:, None]  # how far behind its query a key stands
    seen = torch.ones_like(ahead, dtype=torch.bool)
    if causal:
        seen &= ahead <= 0
    if window:
        seen &= (ahead > -window) if causal else (ahead.abs() <= window)
    return seen


class Masks:
    """All masks of one call together: a key is seen if each of them lets it be seen.

    ``first_at_first`` adds the mask of PyTorch's ``is_causal``: query i sees keys up to i, counted
    from the first, also where there are fewer queries than keys.
    """

    def __init__(self, shape: Shape, first_at_first: bool = False) -> None:
        self.shape = shape
        self.first_at_first = first_at_first
        self._tensors: List[Any] = []

    def add(self, mask: Any, name: str, *, hides: bool = False) -> None:
        """A tensor that broadcasts to the shape. Bool (or whole numbers) says which keys are seen,
        or, if it ``hides``, which are not; real numbers are added to the scores."""
        batch, heads, m, n = self.shape
        if mask.dim() > 4 or any(
            have not in (1, want) for have, want in zip(reversed(mask.shape), (n, m, heads, batch))
        ):
            raise Refused(f"{name} of shape {tuple(mask.shape)} does not fit {self.shape}")
        while mask.dim() < 4:
            mask = mask[None]
        self._tensors.append((mask.detach(), name, hides))

    @property
    def _same_for_all(self) -> bool:
        """Every query sees the same keys: this need not be looked at row by row."""
        return not self.first_at_first and all(mask.shape[2] == 1 for mask, _, _ in self._tensors)

    def rows(self, entry: int, first: int, end: int) -> Any:
        """(end - first, n) bool: what these queries of an entry of the batch see."""
        _, _, _, n = self.shape
        seen = torch.ones(end - first, n, dtype=torch.bool)
        if self.first_at_first:
            seen &= _pattern(True, 0, torch.arange(first, end), n)
        for mask, name, hides in self._tensors:
            part = mask[entry if mask.shape[0] > 1 else 0]
            part = part[:, first:end] if part.shape[1] > 1 else part
            seen &= _seen_by_all_heads(part, name, hides)
        return seen

    def blocks(self, entry: int) -> Iterator[Tuple[int, Any]]:
        _, _, m, n = self.shape
        step = max(1, _BLOCK // n)
        for first in range(0, m, step):
            yield first, self.rows(entry, first, min(m, first + step))

    def sight(self, entry: int, *, tokens_ask: bool) -> Sight:
        """What the queries of an entry of the batch see. ``tokens_ask`` says that queries and keys
        are of the same tokens, so that a key at padding has a query at padding.

        A batch is padded to the length of its longest text. Which keys are padding the last query
        says that sees any, for it sees all others; if that explains nothing they are all there."""
        _, _, m, n = self.shape
        if not self._tensors and (m <= n or not self.first_at_first):
            seen = torch.arange(n) < m if self.first_at_first and m < n else None
            return Sight(self.first_at_first, keys=seen)
        last = self._last_seen(entry)
        if self._same_for_all:
            keys = None if last.all() else last
            return Sight(queries=keys if tokens_ask and m == n else None, keys=keys)
        tries: List[Tuple[Optional[Any], Optional[Any]]] = [(None, None)]
        if not last.all():
            padding = (last if tokens_ask and m == n else None, last)
            tries.insert(0 if m == 1 else 1, padding)  # one query: no window, just fewer keys
        for queries, keys in tries:
            found = self._match(entry, queries, keys)
            if found and self._is_padding(entry, queries, keys):
                return found
            if found and queries is not None and self._are_apart(entry, keys):
                raise Refused(
                    "its mask keeps groups of tokens apart, which do not see each other: documents "
                    "packed into one row, or padding that sees padding. measure has one context "
                    "for each entry of the batch: run every document as an entry of its own, and "
                    "hide padding from all queries"
                )
        raise Refused(
            "its mask is neither causal, nor a window, nor padding at the ends of a batch: "
            "measure has no such mask"
        )

    def _last_seen(self, entry: int) -> Any:
        """(n) bool: what the last query sees that sees any key."""
        _, _, m, _ = self.shape
        last = self.rows(entry, m - 1, m)[0]
        if not last.any() and not self._same_for_all:
            for _, seen in self.blocks(entry):
                seeing = seen[seen.any(1)]
                last = seeing[-1] if len(seeing) else last
        if not last.any():
            raise Refused("it sees no key: its mask hides all of them")
        return last

    def _is_padding(self, entry: int, queries: Optional[Any], keys: Optional[Any]) -> bool:
        """Returns whether no query sees the keys that are left out. A query at padding has nothing
        to see, and some models then show it everything or itself: such a row does not count. Any
        other that sees what is left out is one whose attention would be lost."""
        if keys is None:
            return True
        for first, seen in self.blocks(entry):
            lost = (seen & ~keys).any(1)
            if queries is not None:
                places = torch.arange(first, first + len(seen))
                itself = (seen.sum(1) == 1) & seen.gather(1, places[:, None])[:, 0]
                lost &= queries[places] | ~(seen.all(1) | itself)
            if lost.any():
                return False
        return True

    def _are_apart(self, entry: int, keys: Any) -> bool:
        """Do these tokens and the others see none of each other?"""
        return not any(
            (seen & (keys != keys[first : first + len(seen), None])).any()
            for first, seen in self.blocks(entry)
        )

    def _match(self, entry: int, queries: Optional[Any], keys: Optional[Any]) -> Optional[Sight]:
        _, _, m, n = self.shape
        rows = torch.arange(m) if queries is None else torch.nonzero(queries)[:, 0]
        count = n if keys is None else int(keys.sum())
        ends = [self.rows(entry, int(i), int(i) + 1)[0] for i in (rows[0], rows[-1])]
        first, last = [int((row if keys is None else row[keys]).sum()) for row in ends]
        shapes = [(False, 0)]
        if len(rows) <= count:
            shapes += [(True, 0), (True, last)]
        if len(rows) == count and first > 1:
            shapes += [(False, first - 1)]
        for causal, window in shapes:
            if self._is(entry, queries, keys, causal, window):
                return Sight(causal, window, queries, keys)
        return None

    def _is(
        self, entry: int, queries: Optional[Any], keys: Optional[Any], causal: bool, window: int
    ) -> bool:
        _, _, m, n = self.shape
        kept = m if queries is None else int(queries.sum())
        count = n if keys is None else int(keys.sum())
        place = count - kept  # the last query stands at the last key
        for first, seen in self.blocks(entry):
            if queries is not None:
                seen = seen[queries[first : first + len(seen)]]
            if keys is not None:
                seen = seen[:, keys]
            places = torch.arange(place, place + len(seen))
            if not torch.equal(seen, _pattern(causal, window, places, count)):
                return False
            place += len(seen)
        return True


def _seen_by_all_heads(part: Any, name: str, hides: bool) -> Any:
    """(heads, rows, n) of a mask as (rows, n) bool, the same for all heads."""
    if not part.is_floating_point():
        seen = (part != 0) ^ hides
    else:
        seen = part > _UNSEEN
        if bool((seen & (part != 0)).any()):
            raise Refused(
                f"{name} adds other numbers than 0 and -inf to the scores (a bias: ALiBi, relative "
                "positions): measure has no such mask"
            )
    if seen.shape[0] > 1 and not bool((seen == seen[:1]).all()):
        raise Refused(f"{name} differs between heads: measure has one mask for all of them")
    return seen[0].cpu()
