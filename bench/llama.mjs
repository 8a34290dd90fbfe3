/* SPDX-License-Identifier: Apache-2.0 */
// llama.cpp's side of bench/prompt.py: prompt processing by the binaries of npm's node-llama-cpp.
//
//     llama.mjs MODEL.gguf TOKENS BLOCKS THREADS REPS flash|plain [L.f32]
//
// Evaluates BLOCKS prompts of TOKENS ids, REPS times after 512 ids, and prints one line of JSON with the times. Only
// the logits after the last token are computed, as llama.cpp does for a prompt; L.f32 gets them. The KV cache is F16, its
// default. ESSCHER_BENCH_LLAMA is the package's dist/index.js, if the package is not installed in bench/.
import { readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const [model_, tokens_, blocks_, threads_, reps_, attention, output] = process.argv.slice(2);
const [tokens, blocks, threads, reps] = [tokens_, blocks_, threads_, reps_].map(Number);
const at = process.env.ESSCHER_BENCH_LLAMA;
const { getLlama } = await import(at ? pathToFileURL(at).href : 'node-llama-cpp');
const llama = await getLlama({ gpu: false, build: 'never', maxThreads: threads, logLevel: 'error', progressLogs: false });
const model = await llama.loadModel({ modelPath: model_ });
const context = await model.createContext({ contextSize: tokens + 8, batchSize: Math.min(tokens, 512),
  threads: { ideal: threads, min: threads }, flashAttention: attention === 'flash' });
const sequence = context.getSequence();
const vocabulary = model.fileInfo.metadata.llama.vocab_size;
const ids = Array.from({ length: tokens }, (_, i) => (7919 * i) % vocabulary);

// Evaluates the first n ids from an empty cache; `wanted` of the token that follows them.
async function prompt(n, wanted) {
  await sequence.clearHistory();
  const found = await sequence.controlledEvaluate([...ids.slice(0, n - 1), [ids[n - 1], { generateNext: wanted }]]);
  return found[n - 1].next;
}

// Processor time of this process, and of everything: all columns of /proc/stat but idle and iowait. In seconds.
function own() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}
function all() {
  const x = readFileSync('/proc/stat', 'latin1').split('\n')[0].trim().split(/ +/).slice(1, 9).map(Number);
  return (x[0] + x[1] + x[2] + x[5] + x[6] + x[7]) / 100;
}

const greedy = { token: true, options: { temperature: 0 } };
await prompt(Math.min(tokens, 512), greedy);
const seconds = [], cpu = [], busy = [];
for (let r = 0; r < reps; r++) {
  const before = [all(), own()], start = performance.now();
  for (let b = 0; b < blocks; b++) await prompt(tokens, greedy);
  seconds.push((performance.now() - start) / 1000);
  cpu.push(own() - before[1]);
  busy.push((all() - before[0] - cpu[r]) / seconds[r]);
}
const { version } = JSON.parse(readFileSync(new URL('../package.json', at ? pathToFileURL(at) : import.meta.resolve('node-llama-cpp'))));
console.log(JSON.stringify({ seconds, cpu, busy, version, threads: context.currentThreads, release: llama.llamaCppRelease.release }));
if (output) {
  const { logits } = await prompt(tokens, { ...greedy, logits: true });
  const row = new Float32Array(vocabulary);
  for (const [token, value] of logits) row[token] = value;
  writeFileSync(output, Buffer.from(row.buffer));
}
await llama.dispose();
process.exit(0);
