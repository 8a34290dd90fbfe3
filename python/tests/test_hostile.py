# SPDX-License-Identifier: Apache-2.0
"""Run files whose parts are sound and whose contents are not: esscher.open() gives a result, or an
exception of this package with a rule and a hint; and so do all views of the result (PY07)."""

import ctypes
import os
import tempfile
import unittest

import numpy as np

import esscher
from esscher import _abi
from esscher._library import lib
from esscher.runs import _Run


def called(name, *arguments):
    error = _abi.Error()
    status = getattr(lib, name)(*arguments, ctypes.byref(error))
    assert status == 0, (name, error.message)


def pairs(of):
    return (_abi.RunPair * max(len(of), 1))(*(_abi.RunPair(k, v) for k, v in of.items()))


def column(name, values):
    if isinstance(values, np.ndarray) and values.dtype != object:
        reals = (ctypes.c_double * max(len(values), 1))(*values)
        return _abi.RunColumn(name, _abi.ES_RUN_REAL, ctypes.cast(reals, _abi.Pointer), None)
    texts = (ctypes.c_char_p * max(len(values), 1))(*values)
    return _abi.RunColumn(name, _abi.ES_RUN_TEXT, None, texts)


def write(path, command, params, facts, tables):
    """A run file of these tables, by the library itself, so that every checksum is right."""
    spec = _abi.RunSpec(command, pairs(params), len(params), pairs(facts), len(facts))
    run = ctypes.c_void_p()
    called("es_run_create", path.encode(), ctypes.byref(spec), True, ctypes.byref(run))
    for name, columns in tables.items():
        rows = max(map(len, columns.values()))
        array = (_abi.RunColumn * len(columns))(*(column(k, v) for k, v in columns.items()))
        table = _abi.RunTable(name, rows, len(columns), array, None)
        called("es_run_put_table", run, ctypes.byref(table))
    called("es_run_close", run)


def read(run, name):
    """The columns of a table as the file has them."""
    table = _abi.RunTable()
    called("es_run_get_table", run.handle, name, None, ctypes.byref(table))
    columns = {}
    for c in (table.columns[j] for j in range(table.cols)):
        if c.kind == _abi.ES_RUN_TEXT:
            columns[c.name] = [c.texts[i] for i in range(table.rows)]
        else:
            reals = ctypes.cast(c.reals, ctypes.POINTER(ctypes.c_double))
            columns[c.name] = np.array([reals[i] for i in range(table.rows)])
    lib.es_run_table_free(ctypes.byref(table))
    return columns


def names(run):
    count, name = ctypes.c_int64(), ctypes.create_string_buffer(256)
    called("es_run_tables_count", run.handle, ctypes.byref(count))
    found = []
    for at in range(count.value):
        called("es_run_table_name", run.handle, at, name)
        found.append(name.value)
    return found


TEXTS = [b"", b"'", b"\xff", b"-1", b"rows", b"[" * 100000]
VALUES = [
    *(b"", b"{", b"null", b"{}", b"[]", b"true", b"-1", b"1e999", b"nan", b"'"),
    *(b"[[1], [2, 3]]", b"[[[1]]]", b'[1, "a"]', b'"\\ud800"', b"\xff", b"[" * 100000),
    *(b"9" * 5000, b"1" + b"0" * 30, b'{"inputs": 1}', b'{"inputs": [{}]}'),
    b'{"inputs": [{"role": "q", "path": "p", "shape": [1e9], "dtype": "f32"}]}',
]
NUMBERS = [np.nan, np.inf, -np.inf, -1.0, 1e300]


class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Hundreds of files, each put on disk several times: in memory where there is such a folder.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        cls.folder = tempfile.TemporaryDirectory(dir=memory)
        cls.path = os.path.join(cls.folder.name, "x.run")
        rows = np.sin(np.arange(12.0)).reshape(6, 2)
        esscher.measure(q=rows, k=rows, v=rows, prefixes=[2, 6], top_k=[1, 2], out=cls.path)
        with _Run(cls.path) as run:
            cls.tables = {name: read(run, name) for name in names(run)}
            _, about = run.about()
        cls.params = {k.encode(): v.encode() for k, v in about["parameters"].items()}
        cls.facts = {k.encode(): v.encode() for k, v in about["sessions"][0].items()}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def attempt(self, what, tables=None, params=None, facts=None, command=b"measure"):
        """Writes it, opens it, and looks at all of it. Returns the exception, None if none."""
        write(
            self.path,
            command,
            self.params if params is None else params,
            self.facts if facts is None else facts,
            self.tables if tables is None else tables,
        )
        try:
            result = esscher.open(self.path)
            result.json(), result.text(full=True), result.markdown(), result.latex()
            for table in result.tables:
                result.csv(table)
                result.columns(table)
            repr(result), result.main, result.values, result.provenance
        except esscher.EsscherError as error:
            self.assertTrue(error.rule and error.hint and error.file, (what, error))
            return error
        except Exception as error:
            self.fail(f"{what}: {type(error).__name__}: {error}")
        return None

    def changed(self, table, key, row, value):
        columns = dict(self.tables[table])
        values = list(columns[key])
        values[row] = value
        columns[key] = np.array(values) if isinstance(value, float) else values
        return {**self.tables, table: columns}

    def test_what_is_sound_is_opened(self):
        self.assertIsNone(self.attempt("as it was"))

    def test_every_text_replaced(self):
        refused = 0
        for table, columns in self.tables.items():
            if not table.startswith(b"_"):
                continue
            for key, values in columns.items():
                if not len(values):
                    continue
                hostile = VALUES if key in (b"json", b"value") else TEXTS
                hostile = NUMBERS if isinstance(values, np.ndarray) else hostile
                row = len(values) - 1
                for value in hostile:
                    what = (table, key, value if isinstance(value, float) else value[:20])
                    tables = self.changed(table, key, row, value)
                    refused += self.attempt(what, tables) is not None
        self.assertGreater(refused, 10)  # JSON that is none, for a start

    def test_every_column_and_table_missing(self):
        for table, columns in self.tables.items():
            rest = {name: c for name, c in self.tables.items() if name != table}
            self.attempt(("without", table), rest)
            self.attempt(("no rows", table), {**rest, table: dict.fromkeys(columns, [])})
            for key in columns if len(columns) > 1 else ():
                left = {k: v for k, v in columns.items() if k != key}
                self.attempt(("without", table, key), {**rest, table: left})

    def test_names_facts_and_parameters(self):
        for name in (b"\xff", b"\xed\xa0\x80", b"a b", b"%s", b"rows.0"):
            self.attempt(("table", name), {**self.tables, name: {b"x": [b"1"]}})
            self.attempt(("column", name), {**self.tables, b"more": {name: [b"1"]}})
            self.attempt(("command", name), command=name)
        self.attempt("no facts", facts={})
        for value in VALUES:
            self.attempt(("seed", value[:20]), params={**self.params, b"seed": value})
            self.attempt(("line", value[:20]), facts={**self.facts, b"command": value})

    def test_a_column_of_many_numbers(self):
        """top_mass.0, top_mass.1, ...: a number of ten digits asks for no list of that length."""
        rows = self.tables[b"rows"]
        columns = {key.replace(b".1", b".9999999999"): values for key, values in rows.items()}
        said = {key: list(values) for key, values in self.tables[b"_columns"].items()}
        said[b"key"] = [key.replace(b".1", b".9999999999") for key in said[b"key"]]
        said[b"place"] = np.array(said[b"place"])
        error = self.attempt("numbered", {**self.tables, b"rows": columns, b"_columns": said})
        self.assertIsInstance(error, esscher.FormatError)


if __name__ == "__main__":
    unittest.main()
