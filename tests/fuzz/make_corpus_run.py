#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_corpus_run.py MAKE_RUN : write the seeds of corpus_run, from the run file that the program MAKE_RUN makes.

Pages of 512 bytes instead of 4096 keep the seeds small; the reader does not mind. good_* must be accepted."""
import os
import sqlite3
import subprocess
import sys
import tempfile

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus_run")


def changed(name, *statements):
    """The good file after SQL."""
    with open(GOOD, "rb") as good, open(name, "wb") as copy:
        copy.write(good.read())
    db = sqlite3.connect(name, isolation_level=None)
    for statement in statements:
        db.execute(statement)
    db.close()
    with open(name, "rb") as file:
        return file.read()


def patched(data, at, new):
    return data[:at] + new + data[at + len(new):]


with tempfile.TemporaryDirectory() as work:
    GOOD = os.path.join(work, "good")
    subprocess.run([sys.argv[1], GOOD, "7"], check=True)
    small = sqlite3.connect(GOOD, isolation_level=None)
    small.execute("PRAGMA page_size = 512")
    small.execute("VACUUM")
    small.close()
    other = os.path.join(work, "other")
    good = changed(other)
    cell = good.find(b"\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\x40")  # 1.0, 2.0: a cell
    seeds = {
        "good": good,
        "bad_empty": b"",
        "bad_not_sqlite": b"run file, honestly\n" * 8,
        "bad_header_only": good[:100],
        "bad_cut_in_a_page": good[:-200],
        "bad_cut_at_a_page": good[: len(good) // 1024 * 512],
        "good_in_wal_mode": patched(good, 18, b"\2\2"),
        "bad_page_size": patched(good, 16, b"\3\0"),
        "bad_free_list": patched(good, 32, b"\0\0\0\3\0\0\0\4"),
        "bad_cell": patched(good, cell, b"\1"),
        "bad_magic": changed(other, "PRAGMA application_id = 7"),
        "bad_schema_newer": changed(other, "PRAGMA user_version = 99"),
        "bad_more_tables": changed(other, "CREATE TABLE more(x)"),
        "bad_trigger": changed(other, "CREATE TRIGGER t AFTER INSERT ON cell BEGIN DELETE FROM run; END"),
        "bad_stage_huge": changed(other, "UPDATE stage SET rows = 1 << 40"),
        "bad_stage_negative": changed(other, "UPDATE stage SET cols = -1"),
        "bad_column_gone": changed(other, "DELETE FROM result_column WHERE position = 1"),
        "bad_types": changed(other, "UPDATE cell SET data = 'text', checksum = 'none'"),
        "bad_no_run": changed(other, "DELETE FROM run"),
    }
os.makedirs(FOLDER, exist_ok=True)
for name, data in seeds.items():
    with open(os.path.join(FOLDER, name), "wb") as file:
        file.write(data)
