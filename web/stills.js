/* SPDX-License-Identifier: Apache-2.0 */
// stills.js : the figures of runs as files, without a browser: SVG, PDF, Vega-Lite and CSV of each.
//
// Run by Node.js for `esscher report --figures`. It reads runs from file descriptor 3, {"name", "command", "answer",
// "params", "tables"} each as on the page, and writes files to standard output, each after a line
// "BYTES ROWS UNKNOWN FIGURE KIND TITLE": "12345 36 0 converge-rates-against-the-horizon svg Rates against the horizon";
// UNKNOWN counts characters of a PDF that its fonts have not. It opens no file and no connection. Modules and theme are those of the page's own "Save as".
import { readFileSync, writeSync } from "node:fs";
import { parse, textMetrics, View } from "vega";
import { expressionInterpreter } from "vega-interpreter";
import { compile } from "vega-lite";
import { clean, dataOf, plainName, stillOf } from "./chart.js";
import { registry } from "./figures/index.js";
import { pdfOf } from "./pdf.js";
import { widthOf } from "./pdf-fonts.js";
import { csvOf, tableOf } from "./tables.js";
import { paperTheme } from "./theme.js";

// Vega lays out text by its widths, which browsers know: here they are those of Helvetica.
const heavy = (weight) => weight === "bold" || Number(weight) >= 600;
textMetrics.width = (item, text) =>
  widthOf(String(text ?? item.text ?? ""), item.fontSize ?? 11, heavy(item.fontWeight));

const svgOf = (spec) =>
  new View(parse(compile(spec).spec, undefined, { ast: true }), {
    expr: expressionInterpreter,
    renderer: "none",
  }).toSVG();

// Characters that no XML may hold. What a run calls its texts may.
const notXml = /[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/g;

// Every figure of a run, also each of those that share a place on the page.
function figuresOf(run) {
  const known = Object.hasOwn(registry, run.command) ? registry[run.command](run) : [];
  return known.flatMap((f) => (f.options ? f.options.map((o) => o.figure()) : [f]));
}

// RUN-FIGURE, of about 150 characters at most: file systems have space for 255. Names are never used twice.
function namer() {
  const taken = new Set();
  return (run, title) => {
    const figure = plainName(title);
    const wanted = `${plainName(run, "run", 150 - figure.length)}-${figure}`;
    let name = wanted;
    for (let i = 2; taken.has(name); i++) name = `${wanted}-${i}`;
    taken.add(name);
    return name;
  };
}

async function filesOf(figure) {
  const { figure: cleaned, notes, empty } = clean(figure);
  if (empty) return null;
  const spec = stillOf(cleaned, paperTheme);
  const svg = (await svgOf(spec)).replace(notXml, "\ufffd");
  const rows = dataOf(cleaned);
  let unknown = 0;
  return {
    rows: rows.length,
    unknown: (kind) => (kind === "pdf" ? unknown : 0),
    files: {
      svg,
      pdf: pdfOf(svg, figure.title, () => unknown++),
      "vl.json": `${JSON.stringify({ ...spec, description: [figure.caption, ...notes].join(" ") }, null, 1)}\n`,
      csv: csvOf(rows),
    },
  };
}

// Titles may name texts of a run, which are anything.
const lineOf = (title) => [...title.replace(/[\p{Cc}\u2028\u2029]+/gu, " ")].slice(0, 200).join("");

function put(bytes) {
  for (let at = 0; at < bytes.length;) at += writeSync(1, bytes, at);
}

async function main() {
  const runs = JSON.parse(readFileSync(3, "utf8"));
  const name = namer();
  for (const given of runs) {
    const tables = Object.fromEntries(Object.entries(given.tables).map(([key, t]) => [key, tableOf(t)]));
    for (const figure of figuresOf({ ...given, tables })) {
      const made = await filesOf(figure);
      if (!made) continue;
      const stem = name(given.name, figure.title);
      for (const [kind, content] of Object.entries(made.files)) {
        const bytes = Buffer.from(content);
        put(Buffer.from(`${bytes.length} ${made.rows} ${made.unknown(kind)} ${stem} ${kind} ${lineOf(figure.title)}\n`));
        put(bytes);
      }
    }
  }
}

main();
