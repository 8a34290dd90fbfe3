/* SPDX-License-Identifier: Apache-2.0 */
// figures.test.mjs : what figures show and how they are asked for, in headless Chromium. Run by run.sh.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { clean, endNames } from "../../web/chart.js";

const { PAGES, WEB, BROWSER } = process.env;
const need = createRequire(join(WEB, "package.json"));
const { chromium } = need("playwright-core");

let browser;
before(async () => (browser = await chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox"] })));
after(() => browser?.close());

const ready = (page) => page.waitForFunction(() => document.documentElement.dataset.figures === "ready");

async function open(name, hash = "", options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const trouble = [];
  page.on("console", (m) => trouble.push(m.text()));
  page.on("pageerror", (e) => trouble.push(e.message));
  await page.goto(pathToFileURL(join(PAGES, `${name}.html`)).href + hash);
  await ready(page);
  return { page, trouble, close: () => context.close() };
}

async function unfold(page) {
  await page.evaluate(() => document.querySelectorAll("details.more-figures").forEach((d) => (d.open = true)));
  await page.waitForFunction(() =>
    [...document.querySelectorAll("details.more-figures > div")].every((d) => d.children.length),
  );
  await ready(page);
}

const theme = { palette: Array.from({ length: 8 }, (_, i) => `colour ${i}`) };

test("a series of points beside the lines of others has its name at its last point, where there is space", () => {
  const rows = (series, y) => [10, 100, 1000].map((x) => ({ series, x, y: y / x }));
  const line = { kind: "line", rows: rows("exact", 1) };
  const points = { kind: "points", rows: rows("measured", 2) };
  const figure = (layers) => ({ x: { log: true }, y: {}, series: [{ name: "exact", colour: 0 }, { name: "measured", colour: 1 }], layers });
  const names = (layers, width = 600) => endNames(figure(layers), theme, width)?.map((n) => n.series);
  assert.deepEqual(names([line, points]), ["measured", "exact"]);
  assert.equal(names([line, points], 320), undefined); // the axis needs the space
  assert.equal(names([points, { kind: "points", rows: rows("exact", 1) }]), undefined); // no lines: a cloud has no end
  assert.equal(names([line, { ...points, rows: [...points.rows, ...rows("measured", 3)] }]), undefined);
});

test("what the line at a tenth means stands where no curve is", () => {
  const labelOf = (y) => {
    const rows = [1, 10, 100, 1000, 10000].map((x, i) => ({ series: "error", x, y: y[i] }));
    const figure = { x: { log: true }, y: {}, series: [{ name: "error", colour: 0 }], tenth: true, layers: [{ kind: "points", rows }] };
    return clean(figure).figure.layers.find((l) => l.kind === "label");
  };
  assert.equal(labelOf([1, 0.8, 0.6, 0.4, 0.1]).align, "left");
  assert.equal(labelOf([0.1, 0.2, 0.4, 0.8, 1]).align, "right");
  assert.equal(labelOf([0.1, 0.8, 1, 0.8, 0.1]).align, "center");
});

// The tables that the page carries for a run, as columns.
const tablesOf = (page, command) =>
  page.evaluate((name) => {
    const runs = [...document.querySelectorAll("script[type='application/json']")].map((s) =>
      JSON.parse(s.textContent),
    );
    return runs.find((r) => r.command === name).tables;
  }, command);

test("one figure of a run is drawn at once, the others when they are asked for", async () => {
  const { page, trouble, close } = await open("all");
  const runs = await page.$$eval(".figures", (all) =>
    all.filter((place) => place.children.length).map((place) => ({
      open: place.querySelectorAll(":scope > figure, :scope > .choice").length,
      more: place.querySelector(".more-figures summary")?.textContent ?? "",
      hidden: place.querySelectorAll(".more-figures figure").length,
      first: place.querySelector("h3").textContent,
    })),
  );
  assert.ok(runs.length >= 13);
  for (const { open: shown, hidden } of runs) assert.ok(shown >= 1 && shown <= 2 && hidden === 0);
  assert.equal(runs.filter((r) => r.open === 2).length, 1); // probe: the map of heads, and the curves of one
  const converge = runs.findIndex((r) => r.first.startsWith("Mean error against the number"));
  assert.equal(runs[converge].more, "More figures (4)"); // it has 5
  const box = page.locator(".figures:has(> *)").nth(converge).locator(".more-figures");
  await box.locator("summary").click();
  await page.waitForFunction(() => document.querySelectorAll(".more-figures svg.marks").length === 4);
  await box.locator("summary").click(); // folded again, opened again: not made twice
  await box.locator("summary").click();
  assert.equal(await box.locator("figure").count(), 4);
  assert.deepEqual(trouble, []);
  await close();
});

// data-points is what the figure says it draws; the marks are those of Vega. Both must be what the table has.
async function marksOf(figure, kind = "points") {
  const said = Number(await figure.getAttribute(`data-${kind}`));
  const selector = kind === "cells" ? ".cells_marks path" : `.mark-symbol[class*="points"] path`;
  assert.equal(await figure.locator(selector).count(), said);
  return said;
}

test("no figure drops rows: marks are as many as the table's rows", async () => {
  const { page, close } = await open("all");
  await unfold(page);
  const figure = (title) => page.locator("figure.figure", { hasText: title }).first();
  const finite = (column) => column.filter((v) => typeof v === "number").length;

  const converge = (await tablesOf(page, "converge")).rows;
  assert.equal(await marksOf(figure("Mean error against the number")), finite(converge.columns.mean_error));
  const fits = (await tablesOf(page, "converge")).fits;
  const asPublished = figure("as in the paper"); // mean and covariance, each with its standard error
  assert.equal(await marksOf(asPublished), 2 * fits.rows);
  assert.equal(Number(await asPublished.getAttribute("data-bars")), 2 * fits.rows);
  const evidence = (await tablesOf(page, "claims")).evidence;
  assert.equal(await marksOf(figure("Distance of each measurement")), finite(evidence.columns.measured));
  const tails = (await tablesOf(page, "tails")).rows;
  assert.equal(await marksOf(figure("Hill’s tail index").or(figure("Hill's tail index"))), finite(tails.columns.hill));
  const layers = await figure("Hill's tail index").locator(".role-axis-label text").allTextContents();
  for (const layer of new Set(tails.columns.layer)) assert.ok(layers.includes(String(layer)), `layer ${layer}`);

  const { heads, rows } = await tablesOf(page, "probe");
  assert.equal(heads.shown, heads.rows);
  assert.equal(rows.shown, rows.rows);
  assert.equal(await marksOf(figure("Heads by"), "cells"), heads.rows / 2); // of one domain of two
  for (const at of [0, 17, 47]) {
    // Every n of each head, the largest too.
    const pick = { layer: heads.columns.layer[at], head: heads.columns.head[at], domain: heads.columns.domain[at] };
    const own = rows.columns.n.filter((_, i) => Object.keys(pick).every((k) => rows.columns[k][i] === pick[k]));
    await page.evaluate((hash) => (location.hash = hash), `L${pick.layer}H${pick.head}-${pick.domain}`);
    const curves = page.locator("figure.figure", {
      hasText: `Errors of ${pick.domain}, layer ${pick.layer}, head ${pick.head}`,
    });
    await curves.locator("svg.marks").waitFor();
    assert.equal(await marksOf(curves), 3 * own.length);
  }
  await close();
});

test("sparse: the curves of a head have a point for every policy and number of keys", async () => {
  const { page, trouble, close } = await open("sparse");
  const { rows } = await tablesOf(page, "sparse");
  await unfold(page);
  const curves = page.locator("figure.figure", { hasText: "Errors of" }).first();
  const first = rows.columns.head.filter((h, _, all) => h === all[0]); // of the only layer
  assert.ok(first.length > 8);
  assert.equal(await marksOf(curves), first.length);
  assert.deepEqual(trouble, []);
  await close();
});

test("budget: every verified point is on the frontier, and every head on the maps", async () => {
  const { page, trouble, close } = await open("budget");
  const { allocations, frontier, heads, layers, positions } = await tablesOf(page, "budget");
  await unfold(page);
  const figure = (title) => page.locator("figure.figure", { hasText: title }).first();
  assert.equal(allocations.shown, 4 * 3); // allocations, shares of the keys
  assert.equal(await marksOf(figure("All allocations")), allocations.shown);
  assert.equal(await marksOf(figure("Frontier: error of")), 2 * 3); // ours and the best single setting, shares of the keys
  const lines = await figure("Frontier: error of").locator('.mark-text[class*="names"] text').allTextContents();
  assert.deepEqual(lines.sort(), ["best single setting", "limit", "ours"]);
  const names = new Set(frontier.columns.by);
  assert.ok(names.has("limit") && names.size > 4);
  for (const name of names) if (name !== "all policies") await figure("All allocations").getByText(name).first().waitFor();
  assert.equal(await marksOf(figure("Keys that each head keeps"), "cells"), heads.shown);
  assert.equal(await marksOf(figure("against what they need")), heads.shown);
  assert.equal(await marksOf(figure("Error of each layer")), layers.shown);
  assert.equal(await marksOf(figure("Extra loss by position")), positions.shown);
  assert.deepEqual(trouble, []);
  await close();
});

test("budget of a cache: a tile for every key-value head, with its keys, its bits and its bytes", async () => {
  const { page, trouble, close } = await open("cache");
  const { kv_heads } = await tablesOf(page, "budget");
  const { ratio, bits, bytes, keys, k_type, v_type } = kv_heads.columns;
  assert.equal(kv_heads.shown, 4 * 2); // layers, key-value heads
  const width = { f16: 16, q8_0: 8.5, q4_0: 4.5 }; // bits per number, as ggml stores them
  const kept = 32; // tokens of the prompt; heads have 32 channels
  for (const i of keys.keys()) {
    assert.ok(Math.abs(ratio[i] - keys[i] / kept) < 1e-6);
    assert.equal(bits[i], (width[k_type[i]] + width[v_type[i]]) / 2);
    assert.equal(bytes[i], (keys[i] * 2 * 32 * bits[i]) / 8);
  }
  const choice = page.locator(".choice", { hasText: "Map of" }).last();
  for (const [option, title] of [
    ["share of the keys", "Share of its keys"],
    ["bits per number", "Bits per number"],
    ["bytes", "Bytes of each"],
  ]) {
    await choice.locator("select").selectOption({ label: option });
    const figure = page.locator("figure.figure", { hasText: title }).first();
    await figure.locator("svg.marks").waitFor();
    assert.equal(await marksOf(figure, "cells"), kv_heads.shown);
  }
  assert.deepEqual(trouble, []);
  await close();
});

test("regimes: the exact largest weight grows with the temperature's inverse, and its words change where the table says", async () => {
  const { page, close } = await open("all");
  const { columns } = (await tablesOf(page, "regimes")).curve;
  const { beta, top_weight: weight, regime, averaging_beta: low, freezing_beta: high } = columns;
  const figure = page.locator("figure.figure", { hasText: "When attention stops averaging" });
  assert.equal(Number(await figure.getAttribute("data-line")), beta.length);
  assert.equal(Number(await figure.getAttribute("data-band")), 2 * 3);
  for (let i = 1; i < beta.length; i++) assert.ok(weight[i] > weight[i - 1], `${beta[i]}`);
  assert.equal(new Set(regime).size, 3);
  regime.forEach((word, i) => assert.equal(word, regime[beta[i] <= low[0] ? 0 : beta[i] >= high[0] ? regime.length - 1 : regime.findIndex((_, k) => beta[k] > low[0])]));
  await close();
});

test("loss: a point for every stretching and range of places, and the end of the trained context", async () => {
  const { page, trouble, close } = await open("loss");
  const { positions } = await tablesOf(page, "loss");
  const figure = page.locator("figure.figure", { hasText: "Loss by position per stretching" }).first();
  assert.equal(positions.shown, 3 * 3);
  assert.equal(await marksOf(figure), positions.shown);
  await figure.getByText("The dashed line is the end of the trained context, 64 tokens.").first().waitFor();
  assert.deepEqual(trouble, []);
  await close();
});

test("downstream: a point for every policy, every third of heads and texts, and every head", async () => {
  const { page, trouble, close } = await open("downstream");
  const { rows, strata, text_strata: texts, heads } = await tablesOf(page, "downstream");
  await unfold(page);
  const figure = (title) => page.locator("figure.figure", { hasText: title });
  const thinned = rows.columns.policy.filter((p) => p !== "full").length;
  assert.equal(thinned, 6); // policies, shares kept
  assert.equal(await marksOf(figure("Accuracy against the keys").first()), thinned);
  assert.equal(await marksOf(figure("Divergence against the keys").first()), thinned);
  assert.equal(strata.shown, 3 * thinned);
  assert.equal(await marksOf(figure("A third of the heads")), strata.shown / 2); // of one share that is kept
  assert.equal(texts.shown, 3 * (1 + thinned)); // the full model, too
  assert.equal(await marksOf(figure("by horizon of the texts")), 3 * thinned);
  assert.equal(await marksOf(figure("What one head")), heads.shown / 2);
  assert.ok(heads.shown > 3 * thinned);
  assert.equal(await figure("embedding").count(), 0); // labels were asked for
  assert.deepEqual(trouble, []);
  await close();
});

test("decoders: a map of all heads, and every figure of the head that an address picks", async () => {
  const { page, trouble, close } = await open("decoder", "#L2H4");
  const tables = await tablesOf(page, "probe");
  await unfold(page);
  const figure = (title) => page.locator("figure.figure", { hasText: title }).first();
  const map = figure("Heads by how far they look"); // what the first finding counts
  assert.equal(await marksOf(map, "cells"), tables.position_heads.rows);
  const legend = await map.locator(".mark-text.role-legend-label text").allTextContents();
  assert.deepEqual(legend.sort(), [...new Set(tables.position_heads.columns.place)].sort());
  const own = (name, keep = () => true) => {
    const { columns } = tables[name];
    return columns.layer.filter((layer, i) => layer === 2 && columns.head[i] === 4 && keep(columns, i)).length;
  };
  const rest = (columns, i) => columns.keys[i] === "rest";
  assert.equal(await marksOf(figure("Where the weight is as the context grows: layer 2, head 4")), 5 * own("positions"));
  assert.equal(await marksOf(figure("How many keys it uses as the context grows: layer 2, head 4")), 3 * own("positions"));
  assert.equal(await marksOf(figure("What a window leaves out at the longest n: layer 2, head 4")), 2 * own("context_windows"));
  assert.equal(await marksOf(figure("Mean score by distance: layer 2, head 4")), 3 * own("distances", rest));
  assert.equal(await marksOf(figure("Effective context of every head")), tables.positions.rows);
  assert.deepEqual(trouble, []);
  await close();
});

// Dots of three shares of each n, crosses of two lines between them where forecasts were run, and bars of both.
test("forecasts: where the weight of a head is, beside far keys and beside positions", async () => {
  for (const name of ["far", "forecast"]) {
    const { page, trouble, close } = await open(name, "#L2H4");
    const tables = await tablesOf(page, "probe");
    await unfold(page);
    const own = ({ columns }, keep = () => true) =>
      columns.layer.filter((layer, i) => layer === 2 && columns.head[i] === 4 && keep(columns.n[i])).length;
    const rows = name === "far" ? own(tables.far_rows) : own(tables.positions, (n) => n >= 136);
    const later = own(tables.forecast);
    assert.ok(rows && later);
    const figure = page.locator("figure.figure", { hasText: "Where the weight of layer 2, head 4 is" }).first();
    await figure.locator("svg.marks").waitFor();
    assert.equal(await marksOf(figure), 3 * (rows + later) + (name === "far" ? 2 * later : 0));
    assert.equal(Number(await figure.getAttribute("data-bars")), 2 * later);
    assert.equal((await figure.textContent()).includes("Crosses: measured"), name === "far");
    assert.deepEqual(trouble, []);
    await close();
  }
});

test("a picture's slider goes through its sizes, by keys too, and every point is drawn", async () => {
  const { page, trouble, close } = await open("all");
  const { points, rows } = await tablesOf(page, "picture");
  const sizes = rows.columns.n;
  const queries = points.shown / (sizes.length + 1);
  const box = page.locator(".choice", { has: page.locator("input[type=range]") });
  const slider = box.locator("input");
  const figure = box.locator("figure.figure");
  assert.equal(await slider.getAttribute("max"), String(sizes.length - 1));
  await slider.focus();
  for (const [i, n] of sizes.entries()) {
    await figure.locator("svg.marks").waitFor();
    assert.ok((await figure.locator("h3").textContent()).includes(`over ${n} tokens`));
    assert.equal(await slider.getAttribute("aria-valuetext"), String(n));
    assert.equal(await box.locator("output").textContent(), String(n));
    assert.equal(await marksOf(figure), 2 * queries); // those of this n, and the limits
    if (i + 1 < sizes.length) await page.keyboard.press("ArrowRight");
    await ready(page);
  }
  assert.ok(await slider.evaluate((e) => e === document.activeElement)); // figures change, the focus stays
  await unfold(page);
  assert.equal(await marksOf(page.locator("figure.figure", { hasText: "Every n beside the limit" })), points.shown);
  assert.deepEqual(trouble, []);
  await close();
});

test("the claims figure names every claim", async () => {
  const { page, close } = await open("all");
  const figure = page.locator("figure.figure", { hasText: "Distance of each measurement" });
  const names = new Set((await tablesOf(page, "claims")).evidence.columns.id);
  const labels = await figure.locator(".role-axis-label text").allTextContents();
  for (const name of names) assert.ok(labels.includes(name), name);
  await close();
});

const overlaps = (a, b) => a && b && a.y < b.y + b.height && b.y < a.y + a.height;

test("a head has an address, is marked in every figure, and stays named while the reader scrolls", async () => {
  const { page, trouble, close } = await open("all", "#L2H3");
  const bar = page.locator(".picked");
  assert.match(await bar.innerText(), /layer 2, head 3/);
  const probe = page.locator("section.run", { hasText: "Heads by" });
  assert.ok(overlaps(await probe.locator(".figures").boundingBox(), { y: 0, height: 900 }));
  const curves = page.locator(".choice", { hasText: "Errors of" });
  assert.equal(await curves.locator("h3").innerText(), "Errors of prose, layer 2, head 3");
  await unfold(page);
  assert.equal(await page.locator(".picked_marks path").count(), 1); // a cell of the map
  const marked = await page.$$eval(
    "section.run .figures [class*='picked']:not(.picked_marks) path",
    (all) => all.length,
  );
  assert.equal(marked, 2 + 2 * 2 + 1); // rates and sinks in two domains, and their ratio
  const scrolled = await page.evaluate(() => window.scrollY);
  await page.mouse.wheel(0, 700);
  await page.waitForFunction((from) => window.scrollY >= from + 700, scrolled); // scrolling takes a moment
  const box = await bar.boundingBox();
  assert.ok(box.y >= 0 && box.y < 60, `the bar is at ${box.y}`);

  await page.locator(".choice", { hasText: "Heads by" }).locator(".cells_marks path").nth(17).click();
  assert.equal(await page.evaluate(() => location.hash), "#L2H1");
  assert.match(await bar.innerText(), /layer 2, head 1/);
  await page.locator(".choice", { hasText: "Errors of" }).locator("select").selectOption("code, layer 4, head 2");
  assert.equal(await page.evaluate(() => location.hash), "#L4H2-code");
  await page.evaluate(() => scrollTo(0, document.body.scrollHeight)); // far from the probe: what is picked there does not matter here
  await bar.waitFor({ state: "hidden" });
  await probe.locator(".figures").scrollIntoViewIfNeeded();
  await bar.waitFor({ state: "visible" });
  await bar.getByRole("button").click();
  assert.equal(await bar.isVisible(), false);
  assert.equal(await page.evaluate(() => location.hash), "");
  await page.waitForFunction(() => document.querySelectorAll(".picked_marks path").length === 0);
  await page.evaluate(() => (location.hash = "#L99H1")); // there is none: nothing happens
  assert.equal(await bar.isVisible(), false);
  assert.deepEqual(trouble, []);
  await close();
});

test("a second probe of a page has addresses of its own", async () => {
  const { page, close } = await open("twice", "#run-2-L1H0");
  const [first, second] = await page.locator(".picked").all();
  await second.waitFor({ state: "visible" });
  assert.match(await second.innerText(), /layer 1, head 0/);
  assert.equal(await first.isVisible(), false);
  await page.evaluate(() => (location.hash = "#L0H1"));
  await first.waitFor({ state: "visible" });
  assert.match(await first.innerText(), /layer 0, head 1/);
  await close();
});

test("on paper are the figures that are open", async () => {
  const { page, close } = await open("all");
  await page.emulateMedia({ media: "print" });
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  assert.equal(await page.locator(".more-figures").first().isVisible(), false);
  assert.ok(await page.locator("figure svg.marks").first().isVisible());
  await close();
});

test("tooltips and axes write numbers as people do", async () => {
  const { page, close } = await open("all");
  await unfold(page);
  const texts = await page.$$eval("figure svg text", (all) => all.map((t) => t.textContent));
  assert.ok(texts.length > 300);
  assert.deepEqual(
    texts.filter((t) => /\de[+-]?\d|\+-|(^|\s)-\d/.test(t)),
    [],
  );
  await close();
});
