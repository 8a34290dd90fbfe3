#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of corpus_npy: good_* must load, bad_* must be refused (tests/store/test_npy.c)."""
import os
import struct

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus_npy")
PLAIN = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"


def npy(header=PLAIN, data=b"\0" * 24, version=(1, 0), length=None):
    text = header if isinstance(header, bytes) else header.encode() + b" " * 5 + b"\n"
    form = "<H" if version[0] == 1 else "<I"
    size = struct.pack(form, len(text) if length is None else length)
    return b"\x93NUMPY" + bytes(version) + size + text + data


def shaped(shape, descr="<f4", order="False"):
    return "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, order, shape)


def floats(form, *values):
    return struct.pack(form % len(values), *values)


SEEDS = {
    "good_f4": npy(),
    "good_f4_v2": npy(version=(2, 0)),
    "good_f4_v3": npy(version=(3, 0)),
    "good_f8": npy(shaped("(3,)", "<f8"), floats("<%dd", 1.0, -2.5, float("nan"))),
    "good_f8_big_endian": npy(shaped("(2,)", ">f8"), floats(">%dd", 1.0, 2.0)),
    "good_f4_big_endian": npy(shaped("(2, 1)", ">f4"), floats(">%df", 1.0, 2.0)),
    "good_f2": npy(shaped("(4,)", "<f2"), floats("<%de", 1.0, 65504.0, 6e-8, float("inf"))),
    "good_native": npy(shaped("(1,)", "=f4"), b"\0" * 4),
    "good_empty": npy(shaped("(0, 7)"), b""),
    "good_rank4": npy(shaped("(1, 2, 1, 3)")),
    "good_python2": npy(shaped("(2L, 3L)")),
    "good_other_order": npy('{"shape":(2,3),"fortran_order":False,"descr":"<f4"}'),
    "bad_empty": b"",
    "bad_magic": b"\x93NUMPZ" + npy()[6:],
    "bad_only_magic": npy()[:6],
    "bad_version": npy(version=(4, 0)),
    "bad_length_cut": npy()[:9],
    "bad_header_1tb": npy(version=(2, 0), length=0xFFFFFFFF),
    "bad_header_longer_than_file": npy(length=60000),
    "bad_not_dict": npy("['descr', '<f4']"),
    "bad_duplicate": npy(PLAIN[:-1] + "'shape': (2, 3)}"),
    "bad_unknown_key": npy(PLAIN[:-1] + "'x': (2, 3)}"),
    "bad_missing": npy("{'descr': '<f4', 'shape': (2, 3)}"),
    "bad_object": npy(shaped("(2, 3)", "|O")),
    "bad_int": npy(shaped("(2, 3)", "<i8")),
    "bad_structured": npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (6,)}"),
    "bad_fortran": npy(shaped("(2, 3)", order="True")),
    "bad_negative": npy(shaped("(-2, 3)")),
    "bad_not_tuple": npy(shaped("(6)")),
    "bad_dimension": npy(shaped("(18446744073709551616,)")),
    "bad_overflow": npy(shaped("(1099511627776, 1099511627776)")),
    "bad_overflow_beside_zero": npy(shaped("(0, 1099511627776, 1099511627776)"), b""),
    "bad_rank0": npy(shaped("()"), b"\0" * 4),
    "bad_rank5": npy(shaped("(1, 1, 1, 2, 3)")),
    "bad_short": npy(data=b"\0" * 23),
    "bad_trailing": npy(data=b"\0" * 25),
    "bad_garbage_after_dict": npy(PLAIN + "x"),
    "bad_nul": npy(b"{'descr': '<f4\0', 'fortran_order': False, 'shape': (2, 3), }\n"),
    "bad_npz": b"PK\x03\x04" + b"\0" * 26,
    "bad_pickle": b"\x80\x04\x95\x05\0\0\0\0\0\0\0]\x94.",
    "bad_safetensors": struct.pack("<Q", 2) + b"{}",
}

os.makedirs(FOLDER, exist_ok=True)
for name, content in SEEDS.items():
    with open(os.path.join(FOLDER, name), "wb") as out:
        out.write(content)
