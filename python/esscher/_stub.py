# SPDX-License-Identifier: Apache-2.0
"""Writes the stub of the package, by which editors and type checkers know the studies.

The functions are made at run time, so they are not in the source::

    python3 -m esscher._stub >python/esscher/__init__.pyi

The test ``python_studies`` holds the file against what this prints.
"""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from typing import List

from .studies import StudyFunction, studies

_HEAD = '''\
"""Made by python3 -m esscher._stub: change that, or the studies."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, Union

from numpy.typing import ArrayLike, NDArray

'''

_TYPES = '''
PathLike = Union[str, "os.PathLike[str]"]
__version__: str

class Columns(Protocol):
    """Columns by their names: a mapping, or a DataFrame."""

    def keys(self) -> Iterable[Any]: ...
    def __getitem__(self, key: Any, /) -> Any: ...
'''


def _imports() -> List[str]:
    """What the package itself imports for its users, under the same names."""
    source = Path(__file__).with_name("__init__.py").read_text()
    lines = []
    for node in ast.parse(source).body:
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        for name in node.names:
            if not (name.asname or name.name).startswith("_"):
                module = "." + (node.module or "")
                lines.append(f"from {module} import {name.name} as {name.name}")
    return lines


def _keyword(name: str, kind: str, default: object) -> str:
    optional = kind if default is not None else f"{kind} | None"
    return f"    {name}: {optional} = {default!r},"


def _function(study: StudyFunction) -> str:
    own = [_keyword(p.keyword, f"{p.annotation} | None", p.default)
           for p in study.parameters.values()]  # fmt: skip
    operand = [line for line in own if line.startswith(f"    {study.operand}:")]
    rest = [line for line in own if line not in operand]
    common = [_keyword(name, kind, default) for name, default, kind, _ in study.common]
    lines = [f"def {study.__name__}(", *operand, "    *,", *rest, *common, ") -> Result:"]
    doc = textwrap.indent(f'"""{study.summary[:1].upper()}{study.summary[1:]}."""', "    ")
    return "\n".join([*lines, doc]).replace(" | None | None", " | None")


def stub() -> str:
    """The text of ``__init__.pyi``."""
    parts = [_HEAD + "\n".join(_imports()), _TYPES.rstrip("\n")]
    parts += [_function(study) for study in studies().values()]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    print(stub(), end="")
