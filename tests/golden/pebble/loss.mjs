/* SPDX-License-Identifier: Apache-2.0 */
// loss.mjs : loss of models/pebble with windows, sinks, scaled scores and stretched rotary positions, in f64, by plain
// loops that share no code with the library. Run once, to make loss.json:
//
//     node loss.mjs MODEL IDS [BLOCKS] > loss.json
//
// IDS: text, one block of ids in a line. MODEL: the folder of the checkpoint (Llama's layout, tied embeddings, f16).
import { readFileSync } from "node:fs";

const [folder, list, most] = process.argv.slice(2);
const c = JSON.parse(readFileSync(`${folder}/config.json`, "utf8"));
const blocks = readFileSync(list, "utf8").trim().split("\n").map((l) => l.trim().split(/\s+/).map(Number));
const H = c.hidden_size, h = c.num_attention_heads, g = c.num_key_value_heads, k = c.head_dim, I = c.intermediate_size;

// ---- weights ----

const half = (u) => {
  const s = u >> 15 ? -1 : 1, e = (u >> 10) & 31, m = u & 1023;
  return e === 0 ? s * m * 2 ** -24 : s * (1 + m / 1024) * 2 ** (e - 15);
};
const file = readFileSync(`${folder}/model.safetensors`);
const headerSize = Number(file.readBigUInt64LE(0));
const header = JSON.parse(file.subarray(8, 8 + headerSize).toString());
function tensor(name) {
  const { dtype, data_offsets: [from, to] } = header[name];
  if (dtype !== "F16") throw new Error(dtype);
  const out = new Float64Array((to - from) / 2);
  for (let i = 0; i < out.length; i++) out[i] = half(file.readUInt16LE(8 + headerSize + from + 2 * i));
  return out;
}
const layer = (l, name) => tensor(`model.layers.${l}.${name}.weight`);
const words = tensor("model.embed_tokens.weight"), last = tensor("model.norm.weight");
const layers = Array.from({ length: c.num_hidden_layers }, (_, l) => ({
  n1: layer(l, "input_layernorm"), q: layer(l, "self_attn.q_proj"), k: layer(l, "self_attn.k_proj"),
  v: layer(l, "self_attn.v_proj"), o: layer(l, "self_attn.o_proj"), n2: layer(l, "post_attention_layernorm"),
  gate: layer(l, "mlp.gate_proj"), up: layer(l, "mlp.up_proj"), down: layer(l, "mlp.down_proj"),
}));

// ---- the model ----

// (n, cols) by W (rows, cols)': (n, rows)
function product(x, n, W, rows, cols) {
  const y = new Float64Array(n * rows);
  for (let i = 0; i < n; i++)
    for (let r = 0; r < rows; r++) {
      let sum = 0;
      for (let j = 0; j < cols; j++) sum += x[i * cols + j] * W[r * cols + j];
      y[i * rows + r] = sum;
    }
  return y;
}
function norm(x, n, weight) {
  const y = new Float64Array(n * H);
  for (let i = 0; i < n; i++) {
    let square = 0;
    for (let j = 0; j < H; j++) square += x[i * H + j] ** 2;
    const scale = 1 / Math.sqrt(square / H + c.rms_norm_eps);
    for (let j = 0; j < H; j++) y[i * H + j] = x[i * H + j] * scale * weight[j];
  }
  return y;
}
// Hugging Face's halves: (x_j, x_{j + k/2}) turn by i theta^(-2j/k), or by i rate(j), and grow by `growth`.
function turn(x, n, heads, { rate = (j) => c.rope_theta ** ((-2 * j) / k), growth = 1 }) {
  for (let i = 0; i < n; i++)
    for (let a = 0; a < heads; a++)
      for (let j = 0; j < k / 2; j++) {
        const angle = i * rate(j), at = (i * heads + a) * k + j;
        const p = x[at] * growth, q = x[at + k / 2] * growth;
        x[at] = p * Math.cos(angle) - q * Math.sin(angle);
        x[at + k / 2] = q * Math.cos(angle) + p * Math.sin(angle);
      }
}
const power = (theta) => (j) => theta ** ((-2 * j) / k);
// YaRN (arXiv 2309.00071, as transformers has it): channels that turn more than 32 times in R positions stay, those that
// turn less than once are divided by s, others are in between.
function yarn(s, R) {
  const channel = (turns) => (k * Math.log(R / (turns * 2 * Math.PI))) / (2 * Math.log(c.rope_theta));
  const low = Math.max(Math.floor(channel(32)), 0), high = Math.min(Math.ceil(channel(1)), k - 1);
  const slow = (j) => Math.min(Math.max((j - low) / (high === low ? 0.001 : high - low), 0), 1);
  return {
    rate: (j) => power(c.rope_theta)(j) * (slow(j) / s + 1 - slow(j)),
    growth: 1 + 0.1 * Math.log(s),
  };
}
// setting: {window, sinks, factor(i, n)}; returns the heads' outputs and the mean entropy.
function attend(q, K, V, n, { window = Infinity, sinks = 0, factor = () => 1 }) {
  const out = new Float64Array(n * h * k);
  let entropy = 0;
  const w = new Float64Array(n);
  for (let i = 0; i < n; i++)
    for (let a = 0; a < h; a++) {
      const b = Math.floor(a / (h / g)), scale = factor(i, n) / Math.sqrt(k);
      let top = -Infinity, sum = 0, mean = 0;
      for (let j = 0; j <= i; j++) {
        w[j] = NaN;
        if (j <= i - window && j >= sinks) continue;
        let s = 0;
        for (let d = 0; d < k; d++) s += q[(i * h + a) * k + d] * K[(j * g + b) * k + d];
        w[j] = s * scale;
        top = Math.max(top, w[j]);
      }
      for (let j = 0; j <= i; j++) if (w[j] === w[j]) sum += Math.exp(w[j] - top);
      for (let j = 0; j <= i; j++)
        if (w[j] === w[j]) {
          const p = Math.exp(w[j] - top) / sum;
          mean += p * w[j];
          for (let d = 0; d < k; d++) out[(i * h + a) * k + d] += p * V[(j * g + b) * k + d];
        }
      entropy += (top + Math.log(sum) - mean) / (n * h);
    }
  return [out, entropy];
}
function loss(ids, setting) {
  const n = ids.length;
  const x = new Float64Array(n * H);
  let entropy = 0;
  ids.forEach((id, i) => x.set(words.subarray(id * H, (id + 1) * H), i * H));
  const add = (y) => y.forEach((v, i) => (x[i] += v));
  for (const L of layers) {
    const a = norm(x, n, L.n1);
    const q = product(a, n, L.q, h * k, H), K = product(a, n, L.k, g * k, H), V = product(a, n, L.v, g * k, H);
    turn(q, n, h, setting);
    turn(K, n, g, setting);
    const [heads, e] = attend(q, K, V, n, setting);
    entropy += e / layers.length;
    add(product(heads, n, L.o, H, h * k));
    const b = norm(x, n, L.n2);
    const gate = product(b, n, L.gate, I, H), up = product(b, n, L.up, I, H);
    gate.forEach((v, i) => (up[i] *= v / (1 + Math.exp(-v))));
    add(product(up, n, L.down, H, I));
  }
  const y = norm(x, n, last);
  const nll = [];
  for (let i = 0; i + 1 < n; i++) {
    const z = product(y.subarray(i * H, (i + 1) * H), 1, words, c.vocab_size, H);
    const top = z.reduce((p, v) => Math.max(p, v), -Infinity);
    nll.push(top + Math.log(z.reduce((p, v) => p + Math.exp(v - top), 0)) - z[ids[i + 1]]);
  }
  return { nll, entropy };
}

// ---- what is asked ----

const settings = {
  full: {},
  "window 8": { window: 8 },
  "window 16": { window: 16 },
  "window 32 + 4 sinks": { window: 32, sinks: 4 },
  "full, scores times log": { factor: (i, n) => Math.log(i + 1) / Math.log(n) },
  "full, scores times yarn": { factor: () => (1 + 0.1 * Math.log(8)) ** 2 },
  "full, scores times 1.5": { factor: () => 1.5 },
  "full, scores times logn": { factor: (i) => Math.max(1, Math.log(i + 1) / Math.log(32)) },
  "full, scores times llama4:beta=0.5:n0=16": { factor: (i) => 1 + 0.5 * Math.log(1 + Math.floor(i / 16)) },
  "linear:3": { rate: (j) => power(c.rope_theta)(j) / 3 },
  "ntk:2": { rate: power(c.rope_theta * 2 ** (k / (k - 2))) },
  "base:1e6": { rate: power(1e6) },
  "yarn:4": yarn(4, 32),
  "ntk:2, scores times logn": {
    rate: power(c.rope_theta * 2 ** (k / (k - 2))),
    factor: (i) => Math.max(1, Math.log(i + 1) / Math.log(32)),
  },
};
const answer = { ids: blocks.slice(0, most ?? blocks.length), settings: {} };
for (const [name, setting] of Object.entries(settings)) {
  const found = answer.ids.map((ids) => loss(ids, setting));
  answer.settings[name] = {
    nll: found.map((f) => f.nll.map((v) => Number(v.toFixed(9)))),
    entropy: found.map((f) => f.entropy),
  };
}
process.stdout.write(JSON.stringify(answer) + "\n");
