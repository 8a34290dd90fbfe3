/* SPDX-License-Identifier: Apache-2.0 */
// arrays.mjs DIR : q.npy, k.npy, v.npy of a layer as Hugging Face has them, (1, heads, n, d), and causal.npy, what
// causal attention over them gives, rounded to bfloat16; keys.npy, (2000, 8). The same numbers every time.
import { writeFileSync } from "node:fs";

const [heads, n, d] = [4, 256, 16];

// A generator of 32 bits (mulberry32), and normal numbers by sums of twelve: no function that libraries round in their
// own way.
let state = 7;
function uniform() {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}
function normal() {
  let sum = -6;
  for (let i = 0; i < 12; i++) sum += uniform();
  return sum;
}

// Little-endian f32, as numpy.save writes it.
function save(path, array, shape = [1, heads, n, d]) {
  const text = `{'descr': '<f4', 'fortran_order': False, 'shape': (${shape.join(", ")}), }`.padEnd(117) + "\n";
  const head = Buffer.from(`\x93NUMPY\x01\x00${String.fromCharCode(text.length & 255, text.length >> 8)}`, "latin1");
  writeFileSync(path, Buffer.concat([head, Buffer.from(text, "latin1"), Buffer.from(array.buffer)]));
}

// To the nearest bfloat16, halves to even.
function round(array) {
  const bits = new Uint32Array(array.buffer);
  for (let i = 0; i < bits.length; i++) bits[i] = (bits[i] + 0x7fff + ((bits[i] >>> 16) & 1)) & 0xffff0000;
  return array;
}

// Heads look more and more sharply: scores of head h have a standard deviation of 0.5, 1, 2, 4.
const at = (h, i) => (h * n + i) * d;
const [q, k, v] = "qkv".split("").map(() => Float32Array.from({ length: heads * n * d }, normal));
for (let h = 0; h < heads; h++) for (let i = 0; i < n * d; i++) q[at(h, 0) + i] *= 2 ** (h - 1);
for (const array of [q, k, v]) round(array);

const y = new Float32Array(heads * n * d);
for (let h = 0; h < heads; h++)
  for (let i = 0; i < n; i++) {
    const score = (j) => {
      let sum = 0;
      for (let c = 0; c < d; c++) sum += q[at(h, i) + c] * k[at(h, j) + c];
      return sum / Math.sqrt(d);
    };
    const scores = Array.from({ length: i + 1 }, (_, j) => score(j));
    const most = Math.max(...scores);
    const weights = scores.map((s) => Math.exp(s - most));
    const sum = weights.reduce((a, b) => a + b, 0);
    for (let c = 0; c < d; c++) y[at(h, i) + c] = weights.reduce((a, w, j) => a + w * v[at(h, j) + c], 0) / sum;
  }

const folder = process.argv[2];
save(`${folder}/q.npy`, q);
save(`${folder}/k.npy`, k);
save(`${folder}/v.npy`, v);
save(`${folder}/causal.npy`, round(y));
save(`${folder}/keys.npy`, Float32Array.from({ length: 2000 * 8 }, normal), [2000, 8]);
