/* SPDX-License-Identifier: Apache-2.0 */
// onnx.mjs : as much of ONNX as it takes to hand onnxruntime an operator: a model is a protobuf message, and small enough to be
// written here.

// ---- protobuf: a field is a number, a wire type and a value ----

function varint(n) {
  const bytes = [];
  for (; n > 127; n = Math.floor(n / 128)) bytes.push((n % 128) | 128);
  return Buffer.from([...bytes, n]);
}
export const integer = (field, n) => Buffer.concat([varint(field * 8), varint(n)]);
export const bytes = (field, b) => Buffer.concat([varint(field * 8 + 2), varint(b.length), b]);
export function real(field, x) {
  const value = Buffer.alloc(4);
  value.writeFloatLE(x);
  return Buffer.concat([varint(field * 8 + 5), value]);
}
export const text = (field, s) => bytes(field, Buffer.from(s));
export const message = (field, ...parts) => bytes(field, Buffer.concat(parts));

// ---- ONNX: field numbers of onnx.proto ----

export const FLOAT = 1, INT = 2; // TensorProto.DataType, AttributeProto.AttributeType

export const tensor = (field, name, shape) => message(field, text(1, name),
  message(2, message(1, integer(1, FLOAT), message(2, ...shape.map((n) => message(1, integer(1, n)))))));
