/* SPDX-License-Identifier: Apache-2.0 */
// page.test.mjs : how a report is laid out: what comes first, what is folded, what can be taken away, on which screens and
// on paper. Run by run.sh.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createRequire } from "node:module";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { PAGES, WEB, BROWSER } = process.env;
const need = createRequire(join(WEB, "package.json"));
const { chromium } = need("playwright-core");

let browser;
before(async () => {
  browser = await chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox"] });
});
after(() => browser?.close());

async function open(name, width = 1280, options = {}) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, ...options });
  const page = await context.newPage();
  await page.goto(pathToFileURL(join(PAGES, `${name}.html`)).href);
  await page.waitForFunction(() => document.documentElement.dataset.figures === "ready");
  return { page, close: () => context.close() };
}

const openAll = (page) => page.evaluate(() => document.querySelectorAll("details").forEach((d) => (d.open = true)));

test("the first lines name model, text, date and seed; real models come first, claims and selfcheck last", async () => {
  const { page, close } = await open("all");
  assert.equal(await page.title(), "bert-a on prose.txt");
  assert.equal(await page.locator("h1").innerText(), "bert-a on prose.txt");
  const facts = await page.locator("dl.of").innerText();
  for (const fact of [/model\s+bert-a/, /text\s+prose\.txt/, /date\s+\d{4}-\d\d-\d\d/, /seed\s+7/, /Esscher\s+\d/])
    assert.match(facts, fact);
  const files = await page.$$eval("section.run .origin", (all) => all.map((o) => o.textContent.split(".run")[0]));
  assert.equal(files.length, 17); // nothing is lost
  assert.equal(files[0], "probe");
  assert.deepEqual(files.slice(-2), ["claims", "selfcheck"]);
  const links = await page.$$eval(".contents a", (all) => all.map((a) => a.getAttribute("href")));
  assert.equal(links.length, 17);
  for (const link of links) assert.equal(await page.locator(link).count(), 1);
  const titles = await page.$$eval("section.run", (all) => all.map((s) => s.querySelector("h2, h3, table, figure").parentElement.className));
  assert.deepEqual([...new Set(titles)], ["story"]); // each section begins with its title
  await close();
});

test("a page of one run begins with its question, at most three findings and a figure, all on the first screen", async () => {
  const { page, close } = await open("decoder");
  assert.equal(await page.locator("h1").innerText(), "How far back do the heads of pebble look?");
  const findings = await page.locator(".story > .finding").allInnerTexts();
  assert.ok(findings.length >= 1 && findings.length <= 3);
  const all = await page.locator(".finding").allTextContents();
  assert.equal(new Set(all).size, all.length); // each once
  for (const part of [page.locator(".story > .finding").last(), page.locator(".figures .plot").first()]) {
    const box = await part.boundingBox();
    assert.ok(box.y + box.height <= 900, `${box.y + box.height}`);
  }
  await close();
});

test("the contents of a page of one run lead to what is there: no figures where none is drawn", async () => {
  for (const [name, figures] of [
    ["decoder", 1],
    ["measure", 0],
  ]) {
    const { page, close } = await open(name);
    assert.equal(await page.locator(".contents a", { hasText: "Figures" }).count(), figures, name);
    assert.equal((await page.locator(".figures figure").count()) > 0, figures > 0, name);
    const links = await page.$$eval(".contents a", (all) => all.map((a) => a.getAttribute("href")));
    for (const link of links) assert.equal(await page.locator(link).count(), 1, link);
    await close();
  }
});

test("on paper a page of one run with one figure is one sheet", async () => {
  const { page, close } = await open("regimes");
  assert.equal(await page.locator(".figures > figure").count(), 1);
  const pdf = (await page.pdf({ format: "A4" })).toString("latin1");
  assert.equal(pdf.match(/\/Type \/Page\b/g).length, 1);
  await close();
});

test("two runs side by side: the comparison comes first, and every figure with an error in both has its mark", async () => {
  const { page, close } = await open("both");
  const files = await page.$$eval("section.run .origin", (all) => all.map((o) => o.textContent.split(".run")[0]));
  assert.deepEqual(files, ["both.compare", "converge", "seed1"]);
  assert.match(await page.locator("#run-1 .finding").first().innerText(), /\d+ of \d+ numbers with a standard error in both runs differ/);
  const data = JSON.parse(await page.locator("#run-1-data").textContent());
  const { rows } = data.tables.differences;
  assert.ok(rows > 20);
  const marks = await page.locator("#run-1 figure").first().locator('.mark-symbol[class*="points"] path').count();
  assert.equal(marks, rows);
  await close();
});

test("tables are folded under their size, and a link to one opens it", async () => {
  const { page, close } = await open("all");
  const withFigures = "section.run:has(.figures > *)"; // the tables of others are what they show
  const tables = await page.$$eval(`${withFigures} details.table[data-table]`, (all) =>
    all.map((d) => ({ open: d.open, id: d.id, said: d.querySelector(".count").textContent, rows: d.querySelectorAll("table:not(.summary)").length && d.querySelector("tbody").rows.length })),
  );
  assert.ok(tables.length > 15);
  for (const { open, id, said, rows } of tables) {
    assert.equal(open, false, id);
    const [, count] = said.match(/^(\d+) rows?, \d+ columns?$/);
    assert.equal(rows, Math.min(Number(count), 150), id);
  }
  assert.equal(new Set(tables.map((t) => t.id)).size, tables.length);
  const visible = await page.locator(`${withFigures}:not(:has(.claims)) table`).evaluateAll((all) => all.filter((t) => t.checkVisibility()).length);
  assert.equal(visible, 0);
  const link = page.locator(".save a").first();
  const target = page.locator(await link.getAttribute("href"));
  await link.click();
  assert.equal(await target.evaluate((d) => d.open), true);
  await close();
});

// Lines of a CSV file without quoted line ends: ours has none.
const linesOf = (text) => text.split("\r\n").slice(0, -1);

test("every table can be saved as CSV: all rows, all columns, heads that differ", async () => {
  const { page, close } = await open("all", 1280, { acceptDownloads: true });
  const data = await page.$$eval('script[type="application/json"]', (all) => all.map((s) => JSON.parse(s.textContent)));
  const runs = Object.fromEntries(data.map((d) => [d.command, d]));
  for (const [command, table] of [
    ["probe", "heads"],
    ["converge", "rows"],
    ["claims", "claims"],
  ]) {
    const section = page.locator("section.run", { has: page.locator(".origin", { hasText: `${command}.run` }) });
    const fold = section.locator(`[data-table="${table}"]`).first();
    await fold.evaluate((d) => (d.open = true));
    const [download] = await Promise.all([page.waitForEvent("download"), fold.getByText("Save as CSV").click()]);
    assert.equal(download.suggestedFilename(), `${command}-${table}.csv`);
    const lines = linesOf(readFileSync(await download.path(), "utf8"));
    const told = runs[command].tables[table];
    assert.equal(told.shown, told.rows);
    assert.equal(lines.length, told.rows + 1);
    const heads = lines[0].split(",");
    assert.deepEqual(heads, Object.keys(told.columns));
    assert.equal(new Set(heads).size, heads.length);
  }
  await close();
});

test("claims are set: formulas, relation and slack, one line of conclusion, an address each", async () => {
  const { page, close } = await open("all");
  const claims = page.locator(".claims");
  assert.ok((await claims.locator(".formula sub").count()) > 0); // (1 - P_n)
  assert.ok((await claims.locator(".formula sup").count()) > 0); // 1/(2(1+H^2))
  const text = await claims.innerText();
  assert.doesNotMatch(text, /\^\(|\+-|<=|>=/);
  assert.match(await claims.locator("tr", { hasText: "Twice the coupling" }).innerText(), /undecided/);
  assert.deepEqual(await claims.locator("tr.group").allInnerTexts(), [
    "statements of the papers: 1 consistent, 1 contradicted",
    "common assumptions: 1 does not hold, 1 undecided",
  ]);
  assert.match(text, /arXiv 2512\.10656\): abstract only/);
  assert.match(await page.locator("[id$='-claim-bias'] td.n").first().innerText(), /^= 0\.987$/);
  assert.equal(await page.locator("[id$='-claim-bias'] td.n").count(), 4); // predicted, measured, slack, in se
  const heights = await claims.locator("summary").evaluateAll((all) => all.map((s) => s.getBoundingClientRect().height));
  assert.ok(Math.max(...heights) < 30, `${heights}`);
  await close();
});

test("nothing is wider than the page: 1280, 390 and 320 pixels, folded and unfolded", async () => {
  for (const width of [1280, 390, 320]) {
    const { page, close } = await open("all", width);
    const wide = () => page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok((await wide()) <= width, `${width}: ${await wide()}`);
    await openAll(page);
    await page.waitForFunction(() => document.documentElement.dataset.figures === "ready");
    assert.ok((await wide()) <= width, `${width} unfolded: ${await wide()}`);
    const scrolled = await page.$$eval("details[data-table] .scroll", (all) =>
      all.filter((s) => s.scrollWidth > s.clientWidth + 1).map((s) => `${s.closest("[id]").id} ${s.scrollWidth}`),
    );
    assert.deepEqual(scrolled, [], `${width}`);
    await close();
  }
});

test("on a telephone the first finding and the figure under it begin on the first screen, the other findings follow", async () => {
  for (const name of ["budget", "cache", "decoder", "downstream", "loss", "regimes", "sparse"]) {
    const { page, close } = await open(name, 390);
    const findings = page.locator(".figures > .story > .finding");
    const top = async (part) => (await part.boundingBox()).y;
    const figure = await top(page.locator(".figures .plot").first());
    assert.ok(figure < 844, `${name}: ${figure}`);
    assert.ok((await top(findings.first())) < figure, name);
    if ((await findings.count()) > 1) assert.ok((await top(findings.nth(1))) > figure, name);
    await close();
  }
});

test("on a telephone a row is a card that names its numbers", async () => {
  const { page, close } = await open("all", 390);
  const fold = page.locator('details[data-table="heads"]').first();
  await fold.locator("> summary").click();
  const cell = fold.locator("tbody td").nth(1);
  await cell.locator(".label").waitFor({ state: "visible" });
  assert.equal(await cell.locator(".label").innerText(), await fold.locator("thead th").nth(1).textContent());
  await close();
});

test("on paper: findings and figures, no table that was folded, none that is cut", async () => {
  const { page, close } = await open("all", 695); // A4 without its margins
  await page.locator("details[data-table]").first().evaluate((d) => (d.open = true));
  await page.emulateMedia({ media: "print" });
  const seen = await page.evaluate(() => ({
    wide: document.documentElement.scrollWidth,
    tables: [...document.querySelectorAll("section.run:has(.figures > *) details[data-table]")].filter((d) => d.checkVisibility()).length,
    findings: [...document.querySelectorAll(".story > .finding")].every((p) => p.checkVisibility()),
    note: document.querySelector(".on-paper").checkVisibility(),
  }));
  assert.deepEqual(seen, { wide: 695, tables: 1, findings: true, note: true });
  await openAll(page);
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 695);
  await close();
});

test("less than 2 MB, and there in less than 1.5 s", async () => {
  const bytes = statSync(join(PAGES, "all.html")).size;
  assert.ok(bytes < 2e6, `${bytes}`);
  const { page, close } = await open("all");
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
  console.log(`all.html: ${(bytes / 1e6).toFixed(2)} MB, first paint after ${Math.round(paint)} ms`);
  assert.ok(paint < 1500, `${paint} ms`);
  await close();
});
