/* SPDX-License-Identifier: Apache-2.0 */
// onnxruntime's side of bench/run: its MultiHeadAttention operator with one head.
//
//     peers.mjs check                         succeeds if onnxruntime-node is there
//     peers.mjs FOLDER THREADS REPS Y.npy     attention of FOLDER's Q.npy, K.npy, V.npy; one line of JSON with the time
//
// An operator runs only inside a model, which is written by onnx.mjs.
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { INT, integer, message, tensor, text } from './onnx.mjs';

function model(m, n, d) {
  const node = message(1, text(1, 'q'), text(1, 'k'), text(1, 'v'), text(2, 'y'), text(4, 'MultiHeadAttention'),
    message(5, text(1, 'num_heads'), integer(3, 1), integer(20, INT)), text(7, 'com.microsoft'));
  const graph = message(7, node, text(2, 'attention'), tensor(11, 'q', [1, m, d]), tensor(11, 'k', [1, n, d]),
    tensor(11, 'v', [1, n, d]), tensor(12, 'y', [1, m, d]));
  const opset = (domain, version) => message(8, text(1, domain), integer(2, version));
  return Buffer.concat([integer(1, 8), graph, opset('', 17), opset('com.microsoft', 1)]); // ir_version 8
}

// ---- .npy, as bench/engine makes them: version 1.0, <f4, two dimensions ----

function load(path) {
  const file = readFileSync(path);
  const start = 10 + file.readUInt16LE(8);
  const header = file.toString('latin1', 10, start);
  const shape = header.match(/'shape': \((\d+), (\d+)\)/);
  if (!shape || !header.includes("'<f4'")) throw new Error(`${path}: not the file that bench/engine makes`);
  const data = new Float32Array(file.buffer.slice(file.byteOffset + start, file.byteOffset + file.length));
  return { data, rows: Number(shape[1]), cols: Number(shape[2]) };
}

function save(path, data, rows, cols) {
  const header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${rows}, ${cols}), }`;
  const padded = header.padEnd(Math.ceil((header.length + 11) / 64) * 64 - 11) + '\n';
  const size = Buffer.alloc(2);
  size.writeUInt16LE(padded.length);
  const numbers = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  writeFileSync(path, Buffer.concat([Buffer.from('\x93NUMPY\x01\x00', 'latin1'), size, Buffer.from(padded, 'latin1'),
    numbers]));
}

// ----

const { default: ort } = await import('onnxruntime-node');
if (process.argv[2] !== 'check') {
  const [folder, threads, reps, output] = process.argv.slice(2);
  const [q, k, v] = ['Q', 'K', 'V'].map((x) => load(`${folder}/${x}.npy`));
  const session = await ort.InferenceSession.create(model(q.rows, k.rows, q.cols),
    { executionProviders: ['cpu'], intraOpNumThreads: Number(threads), interOpNumThreads: 1 });
  const wrap = (x) => new ort.Tensor('float32', x.data, [1, x.rows, x.cols]);
  const inputs = { q: wrap(q), k: wrap(k), v: wrap(v) };
  let y = await session.run(inputs); // warm up
  const seconds = [];
  for (let r = 0; r < Number(reps); r++) {
    const start = performance.now();
    y = await session.run(inputs);
    seconds.push((performance.now() - start) / 1000);
  }
  save(output, y.y.data, q.rows, v.cols);
  seconds.sort((a, b) => a - b);
  const { version } = createRequire(import.meta.url)('onnxruntime-node/package.json');
  console.log(JSON.stringify({ contender: 'onnxruntime', version, seconds: seconds[Math.floor(seconds.length / 2)] }));
}
