/* SPDX-License-Identifier: Apache-2.0 */
// build.mjs FOLDER : bundle page.js, beside FOLDER/node_modules, into FOLDER/page.js and FOLDER/notices.txt, and what
// draws figures without a browser into FOLDER/stills.js.
//
// The same sources give the same bytes. What would end the script early inside HTML, or need more than the page's
// Content-Security-Policy allows, stops the build.
import { createRequire } from "node:module";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const folder = resolve(process.argv[2]);
const web = dirname(fileURLToPath(import.meta.url));
const modules = join(folder, "node_modules");
const esbuild = createRequire(join(folder, "package.json"))("esbuild");

const bundle = (entry, options) =>
  esbuild.build({
    absWorkingDir: web,
    entryPoints: [entry],
    nodePaths: [modules],
    bundle: true,
    minify: true,
    target: "es2020",
    charset: "ascii",
    legalComments: "none", // notices.txt has them in full
    metafile: true,
    write: false,
    logLevel: "error",
    ...options,
  });
const result = await bundle("page.js", { format: "iife" });
// For Node.js, but with the packages as browsers get them: they need no canvas then.
const stills = await bundle("stills.js", { format: "cjs", external: ["node:*"] });
const script = result.outputFiles[0].text;
if (/<\/script|<!--|<script/i.test(script)) throw new Error("the bundle contains what ends a script inside HTML");

// Licence of every package of which something is in a bundle.
const packages = new Set();
for (const input of [result, stills].flatMap((r) => Object.keys(r.metafile.inputs))) {
  const at = input.lastIndexOf("node_modules/");
  if (at < 0) continue;
  const parts = input.slice(at + "node_modules/".length).split("/");
  packages.add(parts[0].startsWith("@") ? parts.slice(0, 2).join("/") : parts[0]);
}
const notices = [...packages].sort().map((name) => {
  const about = JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8"));
  const file = readdirSync(join(modules, name)).find((f) => /^licen[cs]e/i.test(f));
  const text = file ? readFileSync(join(modules, name, file), "utf8").trim() : "(no licence text in the package)";
  return { title: `${name} ${about.version}, ${about.license}`, text };
});
// One licence text for all packages that share it word for word.
const texts = new Map();
for (const { title, text } of notices) texts.set(text, [...(texts.get(text) ?? []), title]);
const escape = (s) => s.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/\r\n/g, "\n");
writeFileSync(
  join(folder, "notices.txt"),
  [...texts].map(([text, titles]) => `${titles.join("\n")}\n\n${escape(text)}\n`).join("\n----\n\n"),
);
writeFileSync(join(folder, "page.js"), script);
writeFileSync(join(folder, "stills.js"), stills.outputFiles[0].text);
