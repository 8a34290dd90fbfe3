# SPDX-License-Identifier: Apache-2.0
"""Studies as functions: their signatures, what keywords may be, and the program as a witness."""

import contextlib
import errno
import inspect
import io
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

import esscher
from esscher import _stub
from esscher._abi import ES_PARAM_FLAG
from esscher.params import Inputs
from esscher.progress import reporter

PROGRAM = os.environ.get("ESSCHER_PROGRAM")


def program(*words):
    """The JSON of the program for the same question."""
    done = subprocess.run([PROGRAM, *words, "--json", "--quiet"], capture_output=True, check=True)
    return json.loads(done.stdout)


def results_only(answer):
    """Without who computed it."""
    return {key: value for key, value in answer.items() if key != "provenance"}


class Signatures(unittest.TestCase):
    def test_every_study_is_a_function(self):
        self.assertGreaterEqual(len(esscher.studies()), 24)
        for name, study in esscher.studies().items():
            with self.subTest(name):
                self.assertIs(getattr(esscher, name), study)
                self.assertIn(name, esscher.__all__)
                self.assertNotIn("open", esscher.__all__)  # a star leaves Python's own alone
                signature = inspect.signature(study)
                for keyword, parameter in study.parameters.items():
                    self.assertIn(keyword, signature.parameters)
                    self.assertIn(f"{keyword}: ", study.__doc__)
                    self.assertTrue(keyword.isidentifier())
                    if parameter.kind == ES_PARAM_FLAG:
                        self.assertIs(signature.parameters[keyword].default, False)

    def test_common_keywords_are_those_that_the_study_takes(self):
        self.assertIn("seed", inspect.signature(esscher.converge).parameters)
        self.assertNotIn("seed", inspect.signature(esscher.measure).parameters)

    def test_the_stub_is_up_to_date(self):
        there = Path(_stub.__file__).with_name("__init__.pyi").read_text()
        self.assertEqual(there, _stub.stub(), "make it again: CONTRIBUTING.md says how")

    def test_unknown_keywords(self):
        with self.assertRaisesRegex(TypeError, "'scale'.*did you mean 'scales'"):
            esscher.converge(scale=2)
        with self.assertRaisesRegex(TypeError, "as keywords"):
            esscher.converge(3)


@unittest.skipUnless(PROGRAM, "ESSCHER_PROGRAM is not set")
class AgainstTheProgram(unittest.TestCase):
    def test_lists_are_grids(self):
        r = esscher.converge(
            dim=6, scales=[0.5, 1, 2], n=np.array([100, 200]), replicates=4, seed=7, predict=True
        )
        there = program(
            "converge", "--dim", "6", "--scales", "0.5,1,2", "--n", "100,200", "--replicates", "4",
            "--seed", "7", "--predict",
        )  # fmt: skip
        self.assertEqual(results_only(r.json()), results_only(there))

    def test_arrays_are_files(self):
        rng = np.random.default_rng(0)
        q, k, v = (rng.normal(size=s) for s in ((4, 20, 8), (2, 30, 8), (2, 30, 6)))
        k = k.astype("f2")
        r = esscher.measure(q=q, k=k, v=v, prefixes=[10, 30], top_k=[1, 5], moments=True)
        with tempfile.TemporaryDirectory() as folder:
            paths = {}
            for name, array in (("q", q), ("k", k), ("v", v)):
                paths[name] = os.path.join(folder, name + ".npy")
                np.save(paths[name], array)
            words = [w for name, path in paths.items() for w in ("--" + name, path)]
            there = program("measure", *words, "--prefixes", "10,30", "--top-k", "1,5", "--moments")
            by_path = esscher.measure(**{name: Path(path) for name, path in paths.items()})
        self.assertEqual(results_only(r.json()), results_only(there))
        self.assertGreater(len(by_path.tables), 0)
        self.assertEqual(r.tables["rows"].dtype["mean"], object)
        self.assertEqual(r.tables["rows"]["cov"][0].shape, (6, 6))

    def test_numbers_or_a_file_of_them(self):
        rng = np.random.default_rng(0)
        q, k, v = (rng.normal(size=s) for s in ((2, 20, 8), (2, 30, 8), (2, 30, 6)))
        first = esscher.measure(q=q, k=k, v=v, sink_logits=1.5).tables["sinks"]["weight"]
        for logits in ([1.5], [1.5, 1.5], np.array([1.5, 1.5]), "1.5", "1.5,1.5", np.float32(1.5)):
            with self.subTest(logits):
                r = esscher.measure(q=q, k=k, v=v, sink_logits=logits)
                np.testing.assert_array_equal(r.tables["sinks"]["weight"], first)

    def test_the_run_file_is_the_programs_too(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.run")
            r = esscher.converge(n=[50, 100], replicates=4, out=path)
            said = program("export", path, "--table", "rows")
            self.assertEqual(
                [row["map_error"] for row in said["rows"]], r.tables["rows"]["map_error"].tolist()
            )
            again = program(
                "converge", "--n", "50,100", "--replicates", "4", "--out", path, "--resume"
            )
            self.assertEqual(results_only(again), results_only(r.json()))


class Values(unittest.TestCase):
    def test_a_run_may_be_resumed_with_the_same_array(self):
        """A run knows its files by what they hold, not by where they are."""
        cov = np.diag([1.0, 2.0, 0.5])
        ask = dict(cov=cov, n=[50, 100], replicates=4)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.run")
            first = esscher.converge(**ask, out=path)
            again = esscher.converge(**ask, out=path, resume=True)
            np.testing.assert_array_equal(first.tables["rows"], again.tables["rows"])
            with self.assertRaises(esscher.ExistsError) as raised:
                esscher.converge(**ask, out=path)
            self.assertIsInstance(raised.exception, FileExistsError)
            self.assertEqual(raised.exception.errno, errno.EEXIST)
            with self.assertRaises(esscher.ArgumentError) as raised:
                esscher.converge(**{**ask, "cov": 2 * cov}, out=path, resume=True)
            self.assertEqual(raised.exception.rule, "run.parameters")

    def test_values_of_the_wrong_type(self):
        for bad in (
            dict(dim=2.5),
            dict(dim=True),
            dict(dim=[3]),
            dict(predict="yes"),
            dict(radius="wide"),
            dict(scales=[1, "2x"]),
            dict(n=[1.5]),
            dict(threads=0),
            dict(precision="f16"),
            dict(seed=-1),
            dict(seed=2**64),
            dict(max_memory=-1),
            dict(shard=(3, 2)),
            dict(out="x\0.run"),
        ):
            with self.subTest(bad), self.assertRaises((TypeError, ValueError)):
                esscher.converge(**{"n": [50], "replicates": 4, **bad})

    def test_a_list_of_words(self):
        x = np.random.default_rng(0).normal(size=(2, 20, 4))
        ask = dict(q=x, k=x, v=x, keys=[4], simulations=4)
        r = esscher.sparse(**ask, policy=["stream", "top"])
        there = esscher.sparse(**ask, policy="stream,top")
        self.assertEqual(results_only(r.json()), results_only(there.json()))
        for bad in (dict(policy=[["top"]]), dict(policy=x), dict(correction=["none"])):
            with self.subTest(bad), self.assertRaises((TypeError, ValueError)):
                esscher.sparse(**{**ask, **bad})
        with self.assertRaisesRegex(TypeError, "only must be a text, and not"):
            esscher.claims(only=["hardmax-law"])

    def test_what_is_no_array_is_not_taken_for_one(self):
        x = np.eye(3)
        for ask in (
            lambda: esscher.downstream(model=".", tasks=x),
            lambda: esscher.downstream(model=".", text=x),
            lambda: esscher.downstream(model=".", tasks="t.tsv", plan=x),
            lambda: esscher.probe(model=".", domain={"a": x}),
            lambda: esscher.context_fit(x),
        ):
            with self.assertRaisesRegex(TypeError, "must be a path"):
                ask()

    def test_columns_are_a_table(self):
        length = np.array([1, 4, 16, 64, 256, 1024, 4096])
        loss = np.array([5.72, 3.46, 2.41, 1.88, 1.6, 1.474, 1.405])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "loss.csv"
            lines = [f"{n},{y}" for n, y in zip(length, loss)]
            path.write_text("\n".join(["context,loss", *lines]) + "\n")
            there = esscher.context_fit(path)
        columns = {"context": length, "loss": loss}
        records = np.zeros(7, dtype=[("context", "i8"), ("loss", "f8")])
        records["context"], records["loss"] = length, loss
        for given in (columns, records):
            self.assertEqual(esscher.context_fit(given).findings, there.findings)
        with self.assertRaisesRegex(ValueError, "columns of one length"):
            esscher.context_fit({"context": length, "loss": loss[1:]})

    def test_an_error_names_the_keyword_of_an_array(self):
        x = np.random.default_rng(0).normal(size=(2, 20, 4))
        bad = x.copy()
        bad[1, 5, 2] = np.nan
        with self.assertRaises(esscher.NonFiniteError) as raised:
            esscher.measure(q=x, k=bad, v=x)
        error = raised.exception
        self.assertEqual((error.file, error.row, error.col), (None, 5, 2))
        self.assertTrue(str(error).startswith("k: head 1, row 5, column 2 is NaN"), str(error))
        with self.assertRaises(esscher.NonFiniteError) as raised:
            esscher.converge(cov=np.array([[1, np.nan], [0, 1]]), n=[50], replicates=4)
        self.assertEqual((raised.exception.row, raised.exception.col), (0, 1))
        with self.assertRaises(esscher.ShapeError) as raised:
            esscher.measure(q=x, k=x[:, :, :3], v=x)
        self.assertNotIn(tempfile.gettempdir(), str(raised.exception))

    def test_what_is_read_is_not_overwritten(self):
        x = np.random.default_rng(0).normal(size=(20, 4))
        with tempfile.TemporaryDirectory() as folder:
            path, link = os.path.join(folder, "q.npy"), os.path.join(folder, "link.npy")
            np.save(path, x)
            os.symlink(path, link)
            for out in (path, link):
                for ask in (dict(output=out), dict(per_query=out)):
                    with self.assertRaises(esscher.ArgumentError) as raised:
                        esscher.measure(q=path, k=x, v=x, **ask, force=True)
                    self.assertEqual(raised.exception.rule, "file.input")
            with self.assertRaises(esscher.ArgumentError):
                esscher.exponent(keys=path, beta=1, n=[50], out=link, force=True)
            np.testing.assert_array_equal(np.load(path), x)

    def test_options_are_keywords_in_errors(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.run")
            esscher.converge(n=[50], replicates=4, out=path)
            with self.assertRaises(esscher.ExistsError) as raised:
                esscher.converge(n=[50], replicates=4, out=path)
        self.assertIn("overwrite it with force=True", str(raised.exception))
        with self.assertRaises(esscher.ShapeError) as raised:
            esscher.measure(**dict.fromkeys("qkv", np.ones((2, 1, 3, 3))))
        self.assertIn("batch=0 is the first", raised.exception.hint)
        with self.assertRaises(esscher.EsscherError) as raised:
            esscher.converge(n=[50], resume=True)
        self.assertTrue(str(raised.exception).startswith("resume=True without out "))

    def test_nothing_is_left_behind(self):
        """Whenever somebody presses Ctrl-C: while files are removed, too."""
        inputs = Inputs()
        (path,) = inputs.texts(esscher.measure.parameters["q"], np.eye(3))
        folder = os.path.dirname(path)
        remove = inputs._folder.remove

        def interrupted():
            os.kill(os.getpid(), signal.SIGINT)
            remove()

        with mock.patch.object(inputs._folder, "remove", interrupted):
            with self.assertRaises(KeyboardInterrupt), inputs:
                pass
            deadline = time.monotonic() + 60  # for safety only: a folder that stays is a failure
            while os.path.exists(folder) and time.monotonic() < deadline:
                time.sleep(0.01)
        self.assertFalse(os.path.exists(folder))

    def test_operands_and_several_files(self):
        """compare takes two run files, as a list, by name or not; a path alone is one file."""
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / f"{i}.run" for i in range(2)]
            for seed, path in enumerate(paths):
                esscher.converge(n=[50, 100], replicates=4, seed=seed, out=path)
            self.assertEqual(
                results_only(esscher.compare(paths).json()),
                results_only(esscher.compare(runs=list(map(str, paths))).json()),
            )
            with self.assertRaises(esscher.ArgumentError):
                esscher.compare(paths[0])

    def test_what_is_false_or_none_is_not_asked_for(self):
        ask = dict(n=[50, 100], replicates=4)
        plain, off = esscher.converge(**ask), esscher.converge(**ask, predict=False, cov=None)
        on = esscher.converge(**ask, predict=True)
        self.assertEqual(results_only(off.json()), results_only(plain.json()))
        self.assertNotEqual(list(on.tables), list(off.tables))

    def test_an_error_has_rule_place_and_hint(self):
        with self.assertRaises(esscher.EsscherError) as raised:
            esscher.converge(law="student", dim=3, n=[10, 20], replicates=4)
        self.assertTrue(raised.exception.rule)
        self.assertTrue(raised.exception.hint)
        with tempfile.NamedTemporaryFile(suffix=".npy") as file:
            file.write(b"\x93NUMPY\x01\x00\x00\x00nonsense")
            file.flush()
            with self.assertRaises(esscher.FormatError) as raised:
                esscher.measure(q=file.name, k=file.name, v=file.name)
            self.assertEqual(raised.exception.file, file.name)
            self.assertIsInstance(raised.exception, ValueError)
            self.assertIsNotNone(raised.exception.offset)

    def test_a_file_that_cannot_be_read_is_one_of_the_systems_errors(self):
        with self.assertRaises(FileNotFoundError) as raised:
            esscher.measure(q="/nowhere.npy", k="/nowhere.npy", v="/nowhere.npy")
        error = raised.exception
        self.assertIsInstance(error, esscher.FileError)
        self.assertEqual((error.errno, error.filename), (errno.ENOENT, "/nowhere.npy"))
        self.assertRaises(FileNotFoundError, esscher.open, "/nowhere.run")
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(esscher.FileError) as raised:
                esscher.open(folder)
            self.assertNotIsInstance(raised.exception, FileNotFoundError)
            self.assertEqual((raised.exception.errno, raised.exception.filename), (None, folder))

    def test_a_limit_refuses_before_it_begins(self):
        with self.assertRaises(esscher.LimitError):
            esscher.converge(n=[10000], replicates=4, max_memory=1000)

    def test_a_dry_run_is_the_cost(self):
        r = esscher.converge(n=[1000], replicates=4, dry_run=True)
        self.assertIn("cost", r.tables)

    def test_progress_is_told(self):
        told = []
        esscher.converge(n=[100, 3000], replicates=40, progress=lambda *now: told.append(now))
        shares = [share for share, _ in told]
        self.assertTrue(told)
        self.assertEqual(shares, sorted(shares))
        self.assertTrue(all(0 <= s <= 1 for s in shares))
        self.assertTrue(any(phase for _, phase in told))

    def test_who_is_told_of_progress(self):
        """A callback; a line where somebody looks; nobody else."""
        pipe, terminal = io.StringIO(), io.StringIO()
        terminal.isatty = lambda: True
        with contextlib.redirect_stderr(pipe):
            self.assertIsNone(reporter("x", None))
            self.assertIs(reporter("x", print), print)
            with self.assertRaises(esscher.ArgumentTypeError):
                esscher.converge(n=[50, 100], replicates=4, progress=5)
        with contextlib.redirect_stderr(terminal):
            self.assertIsNone(reporter("x", False))
            line = reporter("x", None)
            line(0.5, "too early to say")
            self.assertEqual(terminal.getvalue(), "")
            line._began -= 60
            line(0.5, "drawing tokens")
            self.assertRegex(terminal.getvalue(), r"x  \[=+ +\]  50 %  drawing tokens  60 s left")
            line.close()
            self.assertTrue(terminal.getvalue().endswith(" \r"))

    def test_shards(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.run")
            esscher.converge(n=[50], replicates=4, out=path, shard=(1, 2))
            with self.assertRaises(esscher.EmptyError) as raised:
                esscher.open(path)
            self.assertIn("shard 1 of 2", raised.exception.hint)
            esscher.converge(n=[50], replicates=4, out=path, shard="2/2", force=True)
            with self.assertRaises(esscher.EmptyError) as raised:
                esscher.open(path)
            self.assertIn("shard 2 of 2", raised.exception.hint)
            for bad in ("2", "1/2/3", "a/b", 2, (1, 2, 3), (1, "2")):
                with self.subTest(bad), self.assertRaisesRegex((TypeError, ValueError), "shard"):
                    esscher.converge(n=[50], out=path, shard=bad)

    def test_remarks_are_logged(self):
        with tempfile.TemporaryDirectory() as folder, self.assertLogs("esscher", "WARNING") as logs:
            path = os.path.join(folder, "x.run")
            esscher.converge(n=[50], replicates=4, out=path, resume=True)
        self.assertIn("does not exist yet", logs.output[0])


if __name__ == "__main__":
    unittest.main()
