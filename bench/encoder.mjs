/* SPDX-License-Identifier: Apache-2.0 */
// onnxruntime's side of bench/model: an encoder of MiniLM-L6's shape, made of its own fused operators.
//
//     encoder.mjs THREADS BLOCKS REPS     BLOCKS blocks of 512 tokens at once; one line of JSON with tokens per second
//
// Weights are drawn: time does not depend on them. Embeddings are given, which spares onnxruntime their lookup.
import { createRequire } from 'node:module';
import { FLOAT, INT, bytes, integer, message, real, tensor, text } from './onnx.mjs';

const H = 384, LAYERS = 6, HEADS = 12, MIDDLE = 1536, TOKENS = 512;

let state = 1; // numbers of small size, whichever
const draw = () => ((state = (state * 1103515245 + 12345) % 2147483648) / 2147483648 - 0.5) / 16;

function initializer(name, ...shape) {
  const data = new Float32Array(shape.reduce((a, b) => a * b)).map(draw);
  return message(5, ...shape.map((n) => integer(1, n)), integer(2, FLOAT), text(8, name), bytes(9, Buffer.from(data.buffer)));
}

const node = (operator, inputs, output, ...rest) =>
  message(1, ...inputs.map((name) => text(1, name)), text(2, output), text(4, operator), ...rest);
const own = text(7, 'com.microsoft');
const epsilon = message(5, text(1, 'epsilon'), real(2, 1e-12), integer(20, FLOAT));
const heads = message(5, text(1, 'num_heads'), integer(3, HEADS), integer(20, INT));

// x = norm(x + attention), x = norm(x + W2 gelu(W1 x)), with biases.
function layer(l, x) {
  const at = (name) => `${name}${l}`;
  return [
    ...['q', 'k', 'v'].flatMap((p) => [initializer(at(`w${p}`), H, H), node('MatMul', [x, at(`w${p}`)], at(p))]),
    initializer(at('bqkv'), 3 * H),
    node('MultiHeadAttention', [at('q'), at('k'), at('v'), at('bqkv')], at('a'), heads, own),
    initializer(at('wo'), H, H),
    node('MatMul', [at('a'), at('wo')], at('o')),
    ...['g1', 'n1', 'bo', 'g2', 'n2', 'b2'].map((p) => initializer(at(p), H)),
    node('SkipLayerNormalization', [at('o'), x, at('g1'), at('n1'), at('bo')], at('h'), epsilon, own),
    initializer(at('w1'), H, MIDDLE),
    initializer(at('b1'), MIDDLE),
    initializer(at('w2'), MIDDLE, H),
    node('MatMul', [at('h'), at('w1')], at('u')),
    node('BiasGelu', [at('u'), at('b1')], at('m'), own),
    node('MatMul', [at('m'), at('w2')], at('d')),
    node('SkipLayerNormalization', [at('d'), at('h'), at('g2'), at('n2'), at('b2')], at('x'), epsilon, own),
  ];
}

function model(blocks) {
  const parts = [];
  for (let l = 0; l < LAYERS; l++) parts.push(...layer(l, l ? `x${l - 1}` : 'x'));
  const graph = message(7, ...parts, text(2, 'encoder'), tensor(11, 'x', [blocks, TOKENS, H]),
    tensor(12, `x${LAYERS - 1}`, [blocks, TOKENS, H]));
  const opset = (domain, version) => message(8, text(1, domain), integer(2, version));
  return Buffer.concat([integer(1, 8), graph, opset('', 17), opset('com.microsoft', 1)]); // ir_version 8
}

const { default: ort } = await import('onnxruntime-node');
const [threads, blocks, reps] = process.argv.slice(2).map(Number);
const session = await ort.InferenceSession.create(model(blocks),
  { executionProviders: ['cpu'], intraOpNumThreads: threads, interOpNumThreads: 1 });
const x = { x: new ort.Tensor('float32', new Float32Array(blocks * TOKENS * H).map(draw), [blocks, TOKENS, H]) };
await session.run(x); // warm up
const speed = [];
for (let r = 0; r < reps; r++) {
  const start = performance.now();
  await session.run(x);
  speed.push((blocks * TOKENS * 1000) / (performance.now() - start));
}
speed.sort((a, b) => a - b);
const { version } = createRequire(import.meta.url)('onnxruntime-node/package.json');
console.log(JSON.stringify({ contender: 'onnxruntime', version, tokens_per_second: speed[Math.floor(reps / 2)] }));
