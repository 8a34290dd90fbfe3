# SPDX-License-Identifier: Apache-2.0
"""The wheel of the Python package: pure Python, with the shared library inside.

The library is built by CMake. ESSCHER_PREBUILT=FOLDER takes that of a build folder instead, such
as build/release. ESSCHER_PREBUILT=system puts none inside: the package then loads the library that
the system has, and the wheel fits any machine (packages of distributions are made so).
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parent
PREBUILT = os.environ.get("ESSCHER_PREBUILT", "")
VERSION = re.search(
    r'ES_VERSION_STRING "([^"]+)"', (ROOT / "include/esscher/export.h").read_text()
).group(1)
SONAME = "libesscher.so." + ".".join(VERSION.split(".")[:2])


def build_library(folder: Path) -> None:
    """Configures and builds in `folder`; options for CMake may be given in CMAKE_ARGS."""
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=OFF", "-DESSCHER_MPI=OFF"]
    options += os.environ.get("CMAKE_ARGS", "").split()
    subprocess.run(["cmake", "-S", str(ROOT), "-B", str(folder), *options], check=True)
    jobs = str(os.cpu_count() or 1)  # make, left to itself, starts all of them at once
    subprocess.run(
        ["cmake", "--build", str(folder), "--target", "esscher", "--parallel", jobs], check=True
    )


def install_library(folder: Path, into: Path) -> None:
    """Copies the library as installing leaves it: stripped, without a search path."""
    with tempfile.TemporaryDirectory() as stage:
        options = ["--component", "library", "--prefix", stage, "--strip"]
        subprocess.run(["cmake", "--install", str(folder), *options], check=True)
        found = list(Path(stage).rglob(SONAME))
        if len(found) != 1:
            raise SystemExit(f"there is no {SONAME} in {folder}")
        into.mkdir(parents=True, exist_ok=True)
        shutil.copy(found[0], into / SONAME)  # the file that the link names


class BuildWithLibrary(build_py):
    """Python files as ever, then the library beside them."""

    def run(self) -> None:
        if not self.editable_mode:  # what an earlier build left there would be packed, too
            shutil.rmtree(Path(self.build_lib) / "esscher", ignore_errors=True)
        super().run()
        if PREBUILT == "system" or self.editable_mode:
            return  # from a source tree, build/release is found
        folder = Path(PREBUILT or Path(self.build_lib).parent / "cmake").resolve()
        if not PREBUILT:
            build_library(folder)
        install_library(folder, Path(self.build_lib) / "esscher" / "_lib")


class ForOneMachine(Distribution):
    """With a library inside, it belongs where compiled modules do."""

    def has_ext_modules(self) -> bool:
        return PREBUILT != "system"


class WheelForAnyPython(bdist_wheel):
    """No part depends on the version of Python; the library depends on the machine."""

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


class NoSourceArchive(sdist):
    """setuptools would pack the Python files alone."""

    def run(self) -> None:
        raise SystemExit("./do dist makes the archive of sources, from which pip can install, too")


setup(
    version=VERSION,
    distclass=ForOneMachine,
    cmdclass={
        "build_py": BuildWithLibrary,
        "bdist_wheel": WheelForAnyPython,
        "sdist": NoSourceArchive,
    },
)
