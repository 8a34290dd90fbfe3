/* SPDX-License-Identifier: Apache-2.0 */
// llama.cpp's side of bench/cache_types.py: logits with a KV cache of given number types, by the binaries of npm's node-llama-cpp.
//
//     llama_cache.mjs MODEL.gguf IDS.i32 TOKENS FROM THREADS KTYPE VTYPE L.f32
//
// IDS.i32 holds blocks of TOKENS ids, int32. Each block starts from an empty cache. L.f32 gets the logits after the tokens FROM to
// TOKENS - 1 of every block, float32. Types are those of GGUF: F32, F16, Q8_0, Q4_0. Flash attention is on: llama.cpp needs
// it for quantised values. ESSCHER_BENCH_LLAMA is the package's dist/index.js, if the package is not installed in bench/.
import { openSync, readFileSync, writeSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const [model_, ids_, tokens_, from_, threads_, ktype, vtype, output] = process.argv.slice(2);
const [tokens, from, threads] = [tokens_, from_, threads_].map(Number);
const at = process.env.ESSCHER_BENCH_LLAMA;
const { getLlama } = await import(at ? pathToFileURL(at).href : 'node-llama-cpp');
const llama = await getLlama({ gpu: false, build: 'never', maxThreads: threads, logLevel: 'error', progressLogs: false });
const model = await llama.loadModel({ modelPath: model_ });
const context = await model.createContext({ contextSize: tokens + 8, batchSize: 512, threads: { ideal: threads, min: threads },
  flashAttention: true, experimentalKvCacheKeyType: ktype, experimentalKvCacheValueType: vtype });
const sequence = context.getSequence();
const vocabulary = model.fileInfo.metadata.llama.vocab_size;
const bytes = readFileSync(ids_);
const ids = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
const file = openSync(output, 'w');
const wanted = { generateNext: { logits: true, options: { temperature: 0 } } };

for (let block = 0; block < ids.length / tokens; block++) {
  const all = Array.from(ids.subarray(block * tokens, (block + 1) * tokens));
  await sequence.clearHistory();
  await sequence.controlledEvaluate(all.slice(0, from));
  for (let first = from; first < tokens; first += 64) { // logits come as maps: 64 tokens at a time
    const found = await sequence.controlledEvaluate(all.slice(first, first + 64).map((id) => [id, wanted]));
    for (const { next } of found) {
      const row = new Float32Array(vocabulary);
      for (const [token, value] of next.logits) row[token] = value;
      writeSync(file, Buffer.from(row.buffer));
    }
  }
}
console.log(JSON.stringify({ release: llama.llamaCppRelease.release, ktype: context.kvCacheKeyType, vtype: context.kvCacheValueType }));
await llama.dispose();
process.exit(0);
