# SPDX-License-Identifier: Apache-2.0
"""Esscher: a laboratory for softmax attention at long context.

Attention over n tokens is an average under an exponentially tilted law, estimated from n samples.
This package computes it with its statistics, and runs the library's studies of what happens as n
grows::

    import esscher

    y = esscher.attend(q, k, v, causal=True)                       # NumPy, or tensors on the CPU
    a = esscher.attend(q, k, v, stats=("lse", "entropy"), prefixes=[256, 1024])

    r = esscher.converge(dim=50, scales=[0.5, 1, 2], out="x.run")
    r.findings                                                     # sentences with their numbers
    r.tables["rows"]["map_error"]                                  # arrays
    esscher.report("x.run", out="x.html")

Every study is a function: ``esscher.studies()`` lists them, ``help(esscher.converge)`` says what
one does. ``esscher.models`` has those that run a model, ``esscher.theory`` those of the theory lab. The work is done by a shared library, which is found when the package is imported.
"""

from __future__ import annotations

from . import cache, errors, models
from ._version import version
from .about import info
from .attention import Attention, attend
from .errors import (
    ArgumentError,
    ArgumentTypeError,
    EmptyError,
    EsscherError,
    ExistsError,
    FileError,
    ForkError,
    FormatError,
    LimitError,
    MissingFileError,
    NonFiniteError,
    NumericError,
    OutOfMemoryError,
    RangeError,
    ShapeError,
    SizeOverflowError,
    StoppedError,
    UnsupportedError,
)
from .kernel_check import assert_attention
from .models import encode, tokenize
from .results import ColumnInfo, Result
from .runs import open, report
from .studies import StudyFunction, studies
from .watch import Watch, Watched, watch

__version__ = version

__all__ = [  # without open, which is Python's own where names are imported by a star
    "ArgumentError",
    "ArgumentTypeError",
    "Attention",
    "ColumnInfo",
    "EmptyError",
    "EsscherError",
    "ExistsError",
    "FileError",
    "ForkError",
    "FormatError",
    "LimitError",
    "MissingFileError",
    "NonFiniteError",
    "NumericError",
    "OutOfMemoryError",
    "RangeError",
    "Result",
    "ShapeError",
    "SizeOverflowError",
    "StoppedError",
    "StudyFunction",
    "UnsupportedError",
    "Watch",
    "Watched",
    "assert_attention",
    "attend",
    "cache",
    "encode",
    "errors",
    "info",
    "models",
    "report",
    "studies",
    "tokenize",
    "version",
    "watch",
]

# The studies, each under its own name.
globals().update(studies())
__all__ += sorted(studies())
