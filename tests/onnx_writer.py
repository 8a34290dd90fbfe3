# SPDX-License-Identifier: Apache-2.0
"""Writes a small ONNX file for check_onnx.sh, and compares what the converter made of it.

    onnx_writer.py write FILE          a graph with one embedding, two products and a norm
    onnx_writer.py write-double FILE   the same with a product's weight in f64, which is not read
    onnx_writer.py compare FILE        FILE is the converted safetensors: every number must be equal
"""

import json
import struct
import sys

FLOAT, UINT8, INT8, DOUBLE = 1, 2, 3, 11


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    """One field: a number, or bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name, kind, shape, data, packed=True):
    """TensorProto; the shape as one packed list or number by number."""
    dims = field(1, b"".join(map(varint, shape))) if packed else b"".join(field(1, d) for d in shape)
    return dims + field(2, kind) + field(8, name.encode()) + data


def raw(code, numbers):
    return field(9, struct.pack("<%d%s" % (len(numbers), code), *numbers))


def node(op, inputs, output):
    return b"".join(field(1, i.encode()) for i in inputs) + field(2, output.encode()) + field(4, op.encode())


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


# Integers from 0 to 255 and from -128 to 127 in an order that shows a wrong row or column.
EMBEDDING = [(i * 37) % 256 for i in range(5 * 3)]
PRODUCT = [(i * 91) % 256 - 128 for i in range(3 * 4)]
PLAIN = [f32(0.1 * i - 0.7) for i in range(4 * 2)]
NORM = [f32(1.0 / (1 + i)) for i in range(3)]
SCALE, ZERO = f32(0.0123), 131
SCALES, ZEROS = [f32(0.01), f32(0.5), f32(3e-5), f32(1.0)], [-3, 0, 127, -128]


def model(double=False):
    tensors = [
        tensor("model.embed.weight_quantized", UINT8, [5, 3], raw("B", EMBEDDING)),
        # float_data and int32_data instead of raw bytes, as for scalars
        tensor("model.embed.weight_scale", FLOAT, [], field(4, struct.pack("<f", SCALE))),
        tensor("model.embed.weight_zero_point", UINT8, [], field(5, ZERO)),
        tensor("onnx::MatMul_7_quantized", INT8, [3, 4], raw("b", PRODUCT), packed=False),
        tensor("onnx::MatMul_7_scale", FLOAT, [4], raw("f", SCALES)),
        tensor("onnx::MatMul_7_zero_point", INT8, [4], raw("b", ZEROS)),
        tensor("model.norm.weight", FLOAT, [3], raw("f", NORM)),
        tensor("onnx::MatMul_9", DOUBLE, [4, 2], raw("d", PLAIN)) if double
        else tensor("onnx::MatMul_9", FLOAT, [4, 2], raw("f", PLAIN)),
    ]
    nodes = [
        node("Gather", ["model.embed.weight_quantized", "input_ids"], "/model/embed/Gather_output_0_quantized"),
        node("MatMulInteger", ["x", "onnx::MatMul_7_quantized", "z", "onnx::MatMul_7_zero_point"],
             "/model/layers.0/up/MatMul_output_0_output_quantized"),
        node("MatMul", ["y", "onnx::MatMul_9"], "/model/layers.0/down/MatMul_output_0"),
        node("MatMul", ["q", "k"], "/model/layers.0/MatMul_output_0"),  # of two results: no weight
    ]
    graph = b"".join(field(1, n) for n in nodes) + b"".join(field(5, t) for t in tensors)
    return field(1, 8) + field(7, graph)


def expected():
    """Names, shapes and numbers; products are (outputs, inputs) in a checkpoint."""
    return {
        "model.embed.weight": ([5, 3], [f32(SCALE * (q - ZERO)) for q in EMBEDDING]),
        "model.layers.0.up.weight":
            ([4, 3], [f32(SCALES[c] * (PRODUCT[r * 4 + c] - ZEROS[c])) for c in range(4) for r in range(3)]),
        "model.layers.0.down.weight": ([2, 4], [PLAIN[r * 2 + c] for c in range(2) for r in range(4)]),
        "model.norm.weight": ([3], NORM),
    }


def compare(path):
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8:8 + length]), data[8 + length:]
    assert sorted(header) == sorted(expected()), sorted(header)
    for name, (shape, numbers) in expected().items():
        entry = header[name]
        begin, end = entry["data_offsets"]
        found = list(struct.unpack("<%df" % len(numbers), body[begin:end]))
        assert entry["dtype"] == "F32" and entry["shape"] == shape, (name, entry)
        assert found == numbers, (name, found, numbers)


if sys.argv[1] == "compare":
    compare(sys.argv[2])
else:
    with open(sys.argv[2], "wb") as out:
        out.write(model(double=sys.argv[1] == "write-double"))
