# SPDX-License-Identifier: Apache-2.0
"""Which library is loaded, and what happens if it is the wrong one.  PY04"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import esscher
from esscher import _library

PACKAGE = Path(esscher.__file__).parent


def imported(package, **environment):
    """What importing a copy of the package says on standard error; '' if it works."""
    env = {**os.environ, "PYTHONPATH": str(package), **environment}
    done = subprocess.run(
        [sys.executable, "-c", "import esscher"],
        env=env,
        cwd=package,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode in (0, 1), f"it crashed: {done.returncode}"
    return done.stderr


class Missing(unittest.TestCase):
    def test_PY04_no_such_file(self):
        said = imported(PACKAGE.parent, ESSCHER_LIBRARY="/nowhere/libesscher.so.0.3")
        self.assertIn("ImportError", said)
        self.assertIn("/nowhere/libesscher.so.0.3", said)
        self.assertIn("ESSCHER_LIBRARY", said)

    def test_PY04_every_place_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "esscher"
            shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("_lib", "__pycache__"))
            (copy / "_lib").mkdir()
            (copy / "_lib" / _library.SONAME).write_text("no library")
            source = (copy / "_library.py").read_text()
            source = source.replace('yield SONAME, "', 'yield "libnothing-of-esscher.so", "')
            (copy / "_library.py").write_text(source)
            said = imported(folder, ESSCHER_LIBRARY="")
        for words in ("ImportError", "inside the package", "installed in the system", "Install"):
            self.assertIn(words, said)
        self.assertNotIn("built in the source tree", said)  # the copy is none

    def test_PY04_some_other_library(self):
        said = imported(PACKAGE.parent, ESSCHER_LIBRARY="libc.so.6")
        self.assertIn("ImportError: libc.so.6 is no library of esscher", said)


class OtherVersion(unittest.TestCase):
    """Copies of the package that a library of another version would look like to."""

    def changed(self, file, old, new):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "esscher"
            shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
            text = (copy / file).read_text()
            self.assertIn(old, text)
            (copy / file).write_text(text.replace(old, new))
            return imported(folder, ESSCHER_LIBRARY=esscher.info()["library"])

    def test_PY04_another_version(self):
        said = self.changed("_version.py", f'"{esscher.version}"', '"0.99.0"')
        self.assertIn("ImportError", said)
        self.assertIn(f"is version {esscher.version}, and this package is version 0.99.0", said)

    def test_PY04_a_field_that_moved(self):
        said = self.changed(
            "_abi.py",
            '("window", c.c_int64), ("sinks", c.c_int64),',
            '("sinks", c.c_int64), ("window", c.c_int64),',
        )
        self.assertIn("ImportError", said)
        self.assertIn("es_mask.sinks", said)

    def test_PY04_a_struct_that_grew(self):
        said = self.changed(
            "_abi.py", '("openmp", c.c_bool),', '("openmp", c.c_bool), ("more", c.c_int64),'
        )
        self.assertIn("es_build.more: None in the library", said)

    def test_PY04_a_function_that_is_gone(self):
        said = self.changed("_abi.py", '"es_answer_at":', '"es_answer_gone":')
        self.assertIn("ImportError", said)
        self.assertIn("es_answer_gone", said)


class Itself(unittest.TestCase):
    def test_structs_are_the_librarys(self):
        self.assertEqual(_library.differences(_library.lib), [])

    def test_version_is_that_of_the_build(self):
        cmake = (PACKAGE.parent.parent / "CMakeLists.txt").read_text()
        self.assertIn(f"project(esscher VERSION {esscher.version} ", cmake)

    def test_every_status_has_its_class(self):
        """The numbers of es_status, by the names that the library gives them."""
        from esscher.errors import _CLASSES

        names = {n: _library.lib.es_status_name(n).decode() for n in range(1, 64)}
        known = {n for n, name in names.items() if name != "ES_E_UNKNOWN"}
        self.assertEqual(set(_CLASSES), known)
        self.assertEqual(names[4], "ES_E_NONFINITE")

    def test_info(self):
        info = esscher.info()
        self.assertEqual(info["version"], esscher.version)
        self.assertTrue(os.path.exists(info["library"]))


if __name__ == "__main__":
    unittest.main()
