/* SPDX-License-Identifier: Apache-2.0 */
// stills.test.mjs : figures as files, `esscher report --figures`: what is in them, and what happens without Node.js.
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { inflateSync } from "node:zlib";

const { PAGES, WEB, ESSCHER } = process.env;
const need = createRequire(join(WEB, "package.json"));
const { compile } = await import(pathToFileURL(need.resolve("vega-lite")).href);

const work = mkdtempSync(join(tmpdir(), "stills-"));
const folder = join(work, "figures");
after(() => rmSync(work, { recursive: true }));

const report = (args, env = {}) =>
  spawnSync(ESSCHER, ["report", ...args], { cwd: PAGES, encoding: "utf8", env: { ...process.env, ...env } });

let figures; // names without endings
let titled; // names by title
before(() => {
  const { status, stderr, stdout } = report(["converge.run", "probe.run", "ball.run", "--figures", folder, "--json"]);
  assert.equal(status, 0, stderr);
  figures = JSON.parse(stdout).figures.map((f) => f.figure);
  titled = Object.fromEntries(JSON.parse(stdout).figures.map((f) => [f.title, f.figure]));
  assert.ok(JSON.parse(stdout).figures.every((f) => f.unknown === 0));
});

const read = (figure, kind) => readFileSync(join(folder, `${figure}.${kind}`), "utf8");
const rowsOf = (csv) => csv.trimEnd().split("\r\n").slice(1);
// Layers that show rows: not the key, not labels, which stand in no table.
const layersOf = (spec) => spec.layer.filter((l) => !/^(key|label)/.test(l.name));

test("every figure is there four times, and nothing else", () => {
  assert.ok(figures.includes("converge-rates-against-the-horizon"));
  assert.ok(figures.includes("probe-errors-of-prose-layer-2-head-3")); // one of 96 in one place of the page
  const expected = figures.flatMap((f) => ["svg", "pdf", "vl.json", "csv"].map((kind) => `${f}.${kind}`));
  assert.deepEqual(readdirSync(folder).sort(), expected.sort());
  assert.equal(new Set(expected).size, expected.length);
});

test("SVG is XML", (t) => {
  if (spawnSync("xmllint", ["--version"]).error) return t.skip("there is no xmllint");
  execFileSync("xmllint", ["--noout", "--nonet", ...figures.map((f) => join(folder, `${f}.svg`))]);
});

test("rows of the CSV are the rows of the Vega-Lite file and the marks of the SVG", () => {
  for (const figure of figures) {
    const layers = layersOf(JSON.parse(read(figure, "vl.json")));
    const svg = read(figure, "svg");
    const rows = layers.reduce((sum, l) => sum + l.data.values.length, 0);
    assert.equal(rowsOf(read(figure, "csv")).length, rows, figure);
    for (const { name, data } of layers.filter((l) => /^(points|cells|tiles|bars)/.test(l.name))) {
      const [, inside] = svg.match(new RegExp(`<g class="[^"]*${name}_marks"[^>]*>(.*?)</g>`));
      assert.equal((inside.match(/<(path|line)/g) ?? []).length, data.values.length, `${figure} ${name}`);
    }
  }
});

// Of 48 heads of the run's first domain 14 have ">" and 6 "any" (make_runs.c).
test("lower bounds and what has no number are marked in the picture, its caption and its CSV", () => {
  const figure = titled["Heads by tokens for 10 %: prose"];
  const words = [...read(figure, "svg").matchAll(/<text[^>]*>([^<]*)/g)].map((m) => m[1]);
  assert.equal(words.filter((w) => w === "&gt;").length, 14);
  assert.equal(words.filter((w) => w === "any").length, 6);
  const { description } = JSON.parse(read(figure, "vl.json"));
  assert.match(description, /14 of 48 are lower bounds \(>\)\. In 6 of 48 any number of tokens will do \(any\)\./);
  assert.doesNotMatch(description, /left out/);
  const [header, ...rows] = read(figure, "csv").trimEnd().split("\r\n");
  const sign = header.split(",").indexOf("sign");
  assert.equal(rows.filter((r) => r.split(",")[sign] === ">").length, 14);
  assert.equal(rows.filter((r) => r.split(",")[sign] === "any").length, 6);
});

// Dashes of lines, as they are drawn, are those of samples in the key.
test("the key of a picture names every dashed line in it", () => {
  const key = (figure) => {
    const spec = JSON.parse(read(figure, "vl.json"));
    return spec.layer.find((l) => l.name === "key_names")?.data.values ?? [];
  };
  for (const figure of figures) {
    const lines = JSON.parse(read(figure, "vl.json")).layer.filter((l) => /^line/.test(l.name) && l.mark.strokeDash);
    for (const { mark, name } of lines)
      assert.ok(
        key(figure).some((e) => e.lines && String(e.dash) === String(mark.strokeDash)),
        `${figure} ${name}`,
      );
  }
  const svg = read(titled["Errors of prose, layer 2, head 3"], "svg");
  for (const name of ["Gaussian tokens", "weights on the pool"]) assert.match(svg, new RegExp(`>${name}<`));
  assert.match(read(titled["Mean error against the number of tokens"], "svg"), />predicted</);
});

test("a CSV names its columns, and has heads where a picture only has places to draw them", () => {
  const header = (title) => read(titled[title], "csv").split("\r\n", 1)[0];
  assert.equal(header("Heads by horizon H: prose"), "part,head,layer,value");
  const title = "Weight on the first and the last token of a block";
  assert.equal(header(title), "part,series,domain,layer,head,weight");
  const heads = rowsOf(read(titled[title], "csv")).map((r) => r.split(",").slice(2, 5).join());
  assert.equal(new Set(heads).size, 96);
  assert.ok(heads.includes("code,5,7"));
  assert.match(header("Rates against the horizon"), /^part,series,horizon,/);
});

test("Vega-Lite files compile without a warning", () => {
  for (const figure of figures.filter((_, i) => i < 12 || i % 8 === 0)) {
    const spec = JSON.parse(read(figure, "vl.json"));
    assert.equal(spec.$schema, "https://vega.github.io/schema/vega-lite/v6.json");
    const said = [];
    const logger = {
      warn: (...m) => said.push(m),
      info: () => logger,
      debug: () => logger,
      error: (...m) => said.push(m),
    };
    logger.level = () => logger;
    compile(spec, { logger });
    assert.deepEqual(said, [], figure);
  }
});

// A PDF reader's first steps: the table of objects, the page, its contents, whose operators must nest.
test("PDFs have objects where their table says, text in Helvetica, and balanced contents", () => {
  for (const figure of figures) {
    const bytes = readFileSync(join(folder, `${figure}.pdf`));
    const text = bytes.toString("latin1");
    assert.ok(text.startsWith("%PDF-1.4\n") && text.endsWith("%%EOF\n"));
    const start = Number(text.match(/startxref\n(\d+)\n%%EOF\n$/)[1]);
    const [, count, table] = text
      .slice(start)
      .match(/^xref\n0 (\d+)\n0000000000 65535 f \n((?:\d{10} 00000 n \n)+)trailer/);
    const offsets = table.match(/\d{10}/g).map(Number);
    assert.equal(offsets.length, Number(count) - 1);
    offsets.forEach((at, i) => assert.ok(text.startsWith(`${i + 1} 0 obj\n`, at), `${figure}: object ${i + 1}`));
    const stream = text.match(/<<\/Length (\d+)\/Filter\/FlateDecode>>\nstream\n/);
    const from = stream.index + stream[0].length;
    assert.equal(text.slice(from + Number(stream[1]), from + Number(stream[1]) + 10), "\nendstream");
    const content = inflateSync(bytes.subarray(from, from + Number(stream[1]))).toString("latin1");
    assert.doesNotMatch(content, /NaN|undefined|Infinity/);
    assert.equal(content.match(/^q$/gm).length, content.match(/^Q$/gm).length);
    assert.equal(content.match(/^BT$/gm).length, (read(figure, "svg").match(/<text[^>]*>[^<]/g) ?? []).length);
    assert.match(text, /\/BaseFont\/Helvetica\/Encoding\/WinAnsiEncoding/);
    const [, width] = text.match(/\/MediaBox\[0 0 ([\d.]+) /);
    assert.equal(Number(width), 680 * 0.75);
  }
});

test("every character of a figure is in a font of the PDF", async () => {
  const { piecesOf } = await import("../../web/pdf-fonts.js");
  const unknown = new Set();
  for (const figure of figures)
    for (const [, text] of read(figure, "svg").matchAll(/<text[^>]*>([^<]*)/g))
      piecesOf(text.replace(/&\w+;/g, ""), false, (c) => unknown.add(c));
  assert.deepEqual([...unknown], []);
});

test("widths of text are those of Helvetica", async () => {
  const { widthOf } = await import("../../web/pdf-fonts.js");
  // Adobe's metrics: H 722, e 556, l 222, o 556; A 667 and in bold 722; Greek beta of Symbol 549, small 2 of 10².
  assert.equal(Math.round(widthOf("Hello", 1000)), 722 + 556 + 222 + 222 + 556);
  assert.equal(widthOf("A", 1000), 667);
  assert.equal(widthOf("A", 1000, true), 722);
  assert.equal(widthOf("β", 1000), 549);
  assert.equal(widthOf("²", 1000), 0.68 * 556);
});

// Circles are four curves: their points must lie on the circle (a quarter by a cubic is off by 3e-4 of the radius).
test("arcs become curves on the circle", async () => {
  const { pathOf } = await import("../../web/pdf.js");
  const curves = [...pathOf("M3,0A3,3,0,1,1,-3,0A3,3,0,1,1,3,0").matchAll(/^(.*) c$/gm)].map((m) =>
    m[1].split(" ").map(Number),
  );
  let at = [3, 0];
  let turned = 0;
  assert.equal(curves.length, 4);
  for (const [a, b, c, d, e, f] of curves) {
    const middle = [(at[0] + 3 * a + 3 * c + e) / 8, (at[1] + 3 * b + 3 * d + f) / 8];
    assert.ok(Math.abs(Math.hypot(...middle) - 3) < 3 * 3e-4 + 1e-3); // numbers have three decimals
    turned += Math.atan2(at[0] * f - at[1] * e, at[0] * e + at[1] * f);
    at = [e, f];
  }
  assert.ok(Math.abs(turned - 2 * Math.PI) < 1e-2); // once around, in SVG's positive direction
});

test("a figure may have more rows than a function has arguments", async () => {
  const { extent, groupBy } = await import("../../web/tables.js");
  const { clean } = await import("../../web/chart.js");
  const rows = Array.from({ length: 300000 }, (_, i) => ({ x: 1, y: i + 3, key: i % 3 }));
  assert.deepEqual(extent(rows.map((r) => r.y)), [3, 300002]);
  const bars = [{ x: 1, lo: -1, hi: 1.5 }]; // one and a half times above the bottom of the axis
  const { figure } = clean({ x: {}, y: { log: true }, layers: [{ kind: "points", rows }, { kind: "bars", rows: bars }] });
  assert.equal(figure.layers[1].rows[0].lo, 1);
  assert.deepEqual(
    groupBy(rows, "key").map(([key, of]) => [key, of.length]),
    [0, 1, 2].map((key) => [key, 100000]),
  );
});

test("a run without a figure says so", () => {
  const out = join(work, "nothing");
  const { status, stdout } = report(["empty.run", "--figures", out]);
  assert.equal(status, 0);
  assert.match(stdout, /^This run has no figure: `esscher export` gives its tables\.\n$/);
  const { findings, figures: none } = JSON.parse(report(["empty.run", "--figures", out, "--json"]).stdout);
  assert.deepEqual([findings.length, none], [1, []]);
});

// A run of a name that alone is too long, and one whose name has no letter of ASCII.
test("names of files are short, plain and all different, whatever runs and texts are called", (t) => {
  const long = `${"long".repeat(60)}.run`;
  for (const name of [long, "данные.run"]) copyFileSync(join(PAGES, "strange.run"), join(work, name));
  const out = join(work, "strange");
  const { status, stderr, stdout } = report([join(work, long), join(work, "данные.run"), "--figures", out, "--json"]);
  assert.equal(status, 0, stderr);
  const made = JSON.parse(stdout).figures;
  const names = made.map((f) => f.figure);
  assert.deepEqual(
    readdirSync(out).sort(),
    names.flatMap((f) => ["svg", "pdf", "vl.json", "csv"].map((kind) => `${f}.${kind}`)).sort(),
  );
  assert.equal(names.length, 4); // two runs, two texts each
  assert.ok(names.every((f) => f.length < 160 && /^(long|run-ratio)/.test(f)), names.join(" "));
  assert.ok(made.every((f) => f.title.length <= 200 && !/\p{Cc}/u.test(f.title)));
  assert.match(made[0].title, / on про за /);
  assert.ok(made.every((f) => f.unknown >= 3)); // "код", which the vertical axes name
  assert.equal(JSON.parse(stdout).findings.length, 1);
  assert.match(JSON.parse(stdout).findings[0], /^4 of 4 figures have characters that no font of the PDF has/);
  if (spawnSync("xmllint", ["--version"]).error) return t.skip("there is no xmllint");
  execFileSync("xmllint", ["--noout", "--nonet", ...names.map((f) => join(out, `${f}.svg`))]);
});

test("what is there is not overwritten, unless that is asked for", () => {
  const path = join(folder, "converge-rates-against-the-horizon.csv");
  const before_ = readFileSync(path, "utf8");
  writeFileSync(path, "mine");
  const refused = report(["converge.run", "--figures", folder]);
  assert.equal(refused.status, 2);
  assert.match(refused.stderr, /exists already.*\[rule file\.exists\]/);
  assert.equal(readFileSync(path, "utf8"), "mine");
  const forced = report(["converge.run", "--figures", folder, "--force"]);
  assert.equal(forced.status, 0, forced.stderr);
  assert.equal(readFileSync(path, "utf8"), before_); // and the same bytes as the first time
});

test("without Node.js, or with one that fails, the error says so and nothing is written", () => {
  const none = report(["converge.run", "--figures", join(work, "none")], { PATH: "/nonexistent" });
  assert.equal(none.status, 3);
  assert.match(none.stderr, /there is no node on PATH \[rule report\.node\]\n {2}hint: install nodejs/);
  const bin = join(work, "bin");
  mkdirSync(bin);
  writeFileSync(join(bin, "node"), "#!/bin/sh\necho 'SyntaxError: too old' >&2\nexit 1\n");
  chmodSync(join(bin, "node"), 0o755);
  const old = report(["converge.run", "--figures", join(work, "none")], { PATH: `${bin}:/bin:/usr/bin` });
  assert.equal(old.status, 3);
  assert.match(old.stderr, /node failed: SyntaxError: too old \[rule report\.node\]/);
  writeFileSync(join(bin, "node"), "#!/bin/sh\nprintf '3 1 0 ../../evil svg title\\nabc'\n");
  const evil = report(["converge.run", "--figures", join(work, "none")], { PATH: `${bin}:/bin:/usr/bin` });
  assert.equal(evil.status, 3);
  assert.match(evil.stderr, /something else than figures/);
  assert.deepEqual(existsSync(join(work, "none")) ? readdirSync(join(work, "none")) : [], []);
});

test("an interrupt leaves no child behind", async () => {
  const bin = join(work, "slow");
  mkdirSync(bin);
  writeFileSync(
    join(bin, "node"),
    `#!/bin/sh\necho $$ >${join(work, "pid.new")}; mv ${join(work, "pid.new")} ${join(work, "pid")}\nexec sleep 100\n`,
  );
  chmodSync(join(bin, "node"), 0o755);
  const child = spawn(ESSCHER, ["report", "converge.run", "--figures", join(work, "slow-figures")], {
    cwd: PAGES,
    env: { ...process.env, PATH: `${bin}:/bin:/usr/bin` },
    stdio: "ignore",
  });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  while (!existsSync(join(work, "pid"))) await new Promise((r) => setTimeout(r, 20));
  child.kill("SIGINT");
  assert.equal(await ended, 130);
  const pid = Number(readFileSync(join(work, "pid"), "utf8"));
  assert.throws(() => process.kill(pid, 0), { code: "ESRCH" });
});
