# SPDX-License-Identifier: Apache-2.0
"""What this package and its library are."""

from __future__ import annotations

from typing import Any, Dict

from ._library import lib, library_path
from ._version import version


def info() -> Dict[str, Any]:
    """Version, library, compiler, processor, kernels, threads; why there are no figures."""
    build = lib.es_build_info()
    return {
        "version": version,
        "library": library_path,
        "compiler": build.compiler.decode(),
        "flags": build.flags.decode(),
        "blas": build.blas.decode(),
        "openmp": build.openmp,
        "cpu": lib.es_cpu_name().decode(),
        "threads": lib.es_threads_available(),
        "figures": lib.es_report_missing().decode() or "yes",
    }
