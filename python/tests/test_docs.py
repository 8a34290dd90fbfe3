# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/PYTHON.md, run in their order: each must print the block `text` after it.
(test_watch.py runs those that need PyTorch.) And those in docstrings."""

import contextlib
import doctest
import io
import os
import re
import tempfile
import unittest
from pathlib import Path

import esscher.attention

PAGE = Path(__file__).parent.parent.parent / "docs" / "PYTHON.md"


class Page(unittest.TestCase):
    def test_examples_print_what_the_page_says(self):
        page, _ = PAGE.read_text("utf-8").split("\n## Watch a running model\n")
        blocks = re.findall(r"```(python|text)\n(.*?)```", page, re.DOTALL)
        self.assertGreater(len(blocks), 10)
        names, printed = {}, ""
        here = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                for kind, text in blocks:
                    if kind == "text":
                        self.assertEqual(printed, text)
                        printed = ""
                        continue
                    self.assertEqual(printed, "", "what an example prints stands under it")
                    with contextlib.redirect_stdout(io.StringIO()) as out:
                        exec(text, names)
                    printed = out.getvalue()
            finally:
                os.chdir(here)
        self.assertEqual(printed, "")

    def test_examples_in_docstrings(self):
        failed, tried = doctest.testmod(esscher.attention)
        self.assertEqual(failed, 0)
        self.assertGreater(tried, 0)


if __name__ == "__main__":
    unittest.main()
