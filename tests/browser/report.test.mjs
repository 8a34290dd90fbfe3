/* SPDX-License-Identifier: Apache-2.0 */
// report.test.mjs : what a reader does with a report, in headless Chromium. Run by run.sh, which makes the pages.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createRequire } from "node:module";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { PAGES, WEB, BROWSER } = process.env;
const need = createRequire(join(WEB, "package.json"));
const { chromium } = need("playwright-core");
const axe = readFileSync(need.resolve("axe-core/axe.min.js"), "utf8");

let browser;
let all; // the page with every kind of figure, as its reader left it
before(async () => {
  // The sandbox needs rights that containers do not give; the pages are our own.
  browser = await chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox"] });
  all = await open("all", { acceptDownloads: true });
});
after(() => browser?.close());

// Open a page and watch it. Everything it says, asks for, or is denied ends up in `trouble`.
async function open(name, options = {}, { drawn = true, folded = false } = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, ...options });
  const page = await context.newPage();
  const trouble = [];
  const url = pathToFileURL(join(PAGES, `${name}.html`)).href;
  page.on("console", (m) => trouble.push(`console ${m.type()}: ${m.text()}`));
  page.on("pageerror", (e) => trouble.push(`error: ${e.message}`));
  page.on("request", (r) => r.url() !== url && trouble.push(`request: ${r.url()}`));
  page.on("dialog", (d) => trouble.push(`dialog: ${d.message()}`) && d.dismiss());
  await page.goto(url);
  if (drawn) await page.waitForFunction(() => document.documentElement.dataset.figures === "ready");
  if (drawn && !folded) await unfold(page);
  return { page, trouble, close: () => context.close() };
}

// Every figure, also those that wait for somebody to ask.
async function unfold(page) {
  await page.evaluate(() => document.querySelectorAll("details.more-figures").forEach((d) => (d.open = true)));
  await page.waitForFunction(
    () =>
      [...document.querySelectorAll("details.more-figures > div")].every((d) => d.children.length) &&
      document.documentElement.dataset.figures === "ready",
  );
}

const rgb = (text) =>
  text
    .match(/[\d.]+/g)
    .slice(0, 3)
    .map(Number);
const light = (text) => rgb(text).reduce((a, b) => a + b) / 3;

// Tables and how they were made are folded; tests that read them open everything, as Ctrl+F would.
const unfoldTables = (page) => page.locator(".folds details, details.about").evaluateAll((all) => all.forEach((d) => (d.open = true)));

test("RP07 every figure is drawn without a word on the console and without a request", async () => {
  const { page, trouble } = all;
  const figures = await page.$$eval("figure.figure", (all) =>
    all.map((f) => [f.querySelector("h3").textContent, f.querySelectorAll(".plot svg path").length]),
  );
  // claims 1, converge 5, hardmax 3, ball 2, regimes 6, collapse 2, heat 4, exponent 2, sink 1, rope 1, context-fit 2, probe 5, tails 3, depth 2, picture 3
  // selfcheck, measure and two figures of heat have fewer than five points here
  assert.equal(figures.length, 42);
  for (const [title, paths] of figures) assert.ok(paths > 3, `${title} has ${paths} paths`);
  assert.deepEqual(trouble, []);
});

test("RP04 the policy forbids eval, inline handlers and the network", async () => {
  const { page, close } = await open("all");
  const directives = ["script-src-elem", "img-src", "style-src-attr", "connect-src"];
  const denied = await page.evaluate(async (directives) => {
    const violations = [];
    document.addEventListener("securitypolicyviolation", (e) => violations.push(e.effectiveDirective));
    const script = document.createElement("script");
    script.textContent = "window.owned = 1";
    document.body.append(script);
    document.body.insertAdjacentHTML("beforeend", "<img src='http://127.0.0.1:9/x.png'><p style='color:red'>");
    await fetch("http://127.0.0.1:9/").catch(() => {});
    // Events come when the browser gets to them; 300 looks are for safety only.
    for (let looks = 0; looks < 300 && !directives.every((d) => violations.includes(d)); looks++)
      await new Promise((r) => setTimeout(r, 100));
    return { violations, owned: window.owned };
  }, directives);
  assert.equal(denied.owned, undefined);
  for (const directive of directives)
    assert.ok(denied.violations.includes(directive), directive);
  const policy = await page.getAttribute("meta[http-equiv]", "content");
  assert.doesNotMatch(policy, /unsafe/);
  await close();
});

test("the pointer finds numbers, and leaves none behind", async () => {
  const { page } = all;
  const figure = page.locator("figure", { hasText: "Size of the mean output against" });
  await figure.scrollIntoViewIfNeeded();
  const point = figure.locator(".mark-symbol path").first();
  await point.hover({ force: true });
  const tip = page.locator(".tooltip");
  await tip.waitFor({ state: "visible" });
  const text = await tip.innerText();
  assert.match(text, /measured mean \|G\|/);
  assert.match(text, /n\s+10\b/);
  assert.match(text, /mean \|G\|\s+0\.\d+ ± 0\.0011/);
  await page.mouse.move(2, 2);
  await tip.waitFor({ state: "hidden" });
});

// Marks are drawn a moment after what is asked for has changed.
async function drawn(marks, count) {
  for (let tries = 0; tries < 300 && (await marks.count()) !== count; tries++) // for safety only
    await new Promise((r) => setTimeout(r, 100));
  assert.equal(await marks.count(), count);
}

test("legend buttons hide a series and bring it back, by mouse and by keyboard", async () => {
  const { page } = all;
  const figure = page.locator("figure", { hasText: "Weight on the first and the last token" });
  const points = () => figure.locator(".mark-symbol path").count();
  const whole = await points();
  const button = figure.locator(".legend button").first();
  await button.click();
  assert.equal(await button.getAttribute("aria-pressed"), "false");
  await drawn(figure.locator(".mark-symbol path"), whole / 2); // one of two tokens is gone
  await button.focus();
  await page.keyboard.press("Enter");
  assert.equal(await button.getAttribute("aria-pressed"), "true");
  await drawn(figure.locator(".mark-symbol path"), whole);
});

test("a cell of the map, or the list, picks the head whose curves are shown", async () => {
  const { page, trouble } = all;
  const map = page.locator(".choice", { hasText: "Heads by" });
  const curves = page.locator(".choice", { hasText: "Errors of" });
  assert.match(await curves.locator("h3").innerText(), /^Errors of prose, layer 0, head 0$/);
  await map.locator(".cells_marks path").nth(17).click(); // rows of the table in order: layer 2, head 1
  assert.equal(await curves.locator("h3").innerText(), "Errors of prose, layer 2, head 1");
  assert.equal(await curves.locator("select").inputValue(), "prose, layer 2, head 1");
  await drawn(curves.locator(".mark-symbol[class*=points] path"), 3 * 3); // three errors, three n
  // One horizon of 12.5 among 1.5 does not make the others one colour.
  assert.ok(new Set(await map.locator(".cells_marks path").evaluateAll((all) => all.map((c) => c.getAttribute("fill")))).size > 10);
  await curves.locator("select").focus();
  await page.keyboard.press("ArrowDown");
  await page.waitForFunction(() =>
    [...document.querySelectorAll("h3")].some((h) => h.textContent === "Errors of prose, layer 2, head 2"),
  );
  await map.locator("select").selectOption("weight on [CLS] and [SEP]: code");
  assert.equal(await map.locator("h3").innerText(), "Heads by weight on [CLS] and [SEP]: code");
  await drawn(map.locator(".cells_marks path"), 48);
  assert.equal(await page.locator(".choice figure").count(), 5); // replaced, not added
  assert.deepEqual(trouble, []);
});

test("every figure saves itself as valid SVG; PNG and CSV are what they say", async () => {
  const { page, trouble } = all;
  // Of many downloads in a row headless Chromium now and then drops one, without a word: ask again.
  const save = async (button, attempts = 4) => {
    const [download] = await Promise.all([
      page.waitForEvent("download", { timeout: attempts > 1 ? 5000 : 30000 }).catch(() => undefined),
      button.click(),
    ]);
    if (!download && attempts > 1) return save(button, attempts - 1);
    assert.ok(download, await button.getAttribute("aria-label"));
    return { name: download.suggestedFilename(), bytes: readFileSync(await download.path()) };
  };
  for (const figure of await page.locator("figure.figure").all()) {
    const { name, bytes } = await save(figure.getByText("SVG", { exact: true }));
    assert.match(name, /^[a-z0-9-]+\.svg$/);
    const root = await page.evaluate((text) => {
      const document = new DOMParser().parseFromString(text, "image/svg+xml");
      return {
        error: document.querySelector("parsererror")?.textContent,
        tag: document.documentElement.tagName,
        paths: document.querySelectorAll("path").length,
      };
    }, bytes.toString());
    assert.equal(root.error, undefined);
    assert.equal(root.tag, "svg");
    assert.ok(root.paths > 3, name);
  }
  const first = page.locator("figure.figure", { hasText: "Mean error against" });
  const png = await save(first.getByText("PNG", { exact: true }));
  assert.equal(png.bytes.subarray(1, 4).toString(), "PNG");
  const csv = (await save(first.getByText("CSV", { exact: true }))).bytes.toString().split("\r\n");
  assert.equal(csv[0].split(",").slice(0, 3).join(), "part,series,x");
  assert.match(await first.locator(".save").innerText(), /CSV: 7 digits; esscher export has all/);
  assert.equal(csv.filter((l) => l.startsWith("measured,")).length, 12); // 3 scales, 4 sizes
  assert.deepEqual(trouble, []);
});

test("RP01 names that attack the page are only shown", async () => {
  const { page, trouble, close } = await open("hostile");
  await unfoldTables(page);
  await page.locator("th").first().click();
  assert.equal(await page.evaluate(() => window.owned), undefined);
  assert.equal(
    await page.locator("main script:not([type]), main img, main b, main [onclick], main [onload]").count(),
    0,
  );
  const text = await page.locator("main").innerText();
  for (const shown of [
    "</script><script>window.owned=1</script>",
    "<img src=x onerror=window.owned=1>",
    "line\\u2028separator",
    "right\\u202eot tfel",
    "\\xff\\xfe not UTF-8 \\u0001\\u001b[31m",
  ])
    assert.ok(text.includes(shown), shown);
  assert.equal(await page.title(), "</title><script>window.owned=1</script>");
  // A text that came through JSON arrives in the tooltip as text, too.
  await page.locator("figure .mark-symbol path").first().hover({ force: true });
  await page.locator(".tooltip").waitFor({ state: "visible" });
  assert.equal(await page.locator(".tooltip script").count(), 0);
  assert.match(await page.locator(".tooltip").innerText(), /<\/script>/);
  assert.deepEqual(trouble, []);
  await close();
});

test("RP02 RP05 what is no number, and what a logarithm has no place for, is said", async () => {
  const { page, trouble, close } = await open("odd");
  await unfoldTables(page);
  const caption = await page.locator("figcaption").innerText();
  assert.match(caption, /1 point without a finite number is left out/);
  assert.match(caption, /2 points at or below zero cannot be shown on a logarithmic axis and are left out/);
  assert.match(caption, /intervals reach zero/);
  assert.equal(await page.locator("figure .mark-symbol path").count(), 2 * 3); // each with its larger, invisible target
  const table = await page.locator("details[data-table]").innerText();
  assert.match(table, /3 values are no finite number/);
  assert.match(table, /−∞/);
  assert.deepEqual(
    await page.evaluate(() => JSON.parse(document.querySelector("script[type]").textContent).tables.rows.columns.other),
    [1, null, null, 2, 3, 4],
  );
  assert.deepEqual(trouble, []);
  await close();
});

test("RP03 no rows, one row, no tables at all", async () => {
  const { page, trouble, close } = await open("few");
  await unfoldTables(page);
  const [empty, one, unfinished] = await page.locator("section.run").all();
  assert.match(await empty.innerText(), /This table has no rows/);
  assert.match(await one.innerText(), /0\.1/);
  assert.equal(await one.locator("figure").count(), 0); // one point is no figure
  assert.match(await unfinished.innerText(), /not complete/);
  assert.match(await unfinished.innerText(), /esscher converge --out unfinished\.run --resume/);
  assert.deepEqual(trouble, []);
  await close();
});

// What makes a page slow to open is counted: its bytes and the elements of its document. Seconds are printed, for people.
test("RP03 a million rows: less than 5 MB and 10000 nodes, and the page says what it left out", async () => {
  const bytes = statSync(join(PAGES, "large.html")).size;
  const context = await browser.newContext();
  const page = await context.newPage();
  const client = await context.newCDPSession(page);
  await client.send("Performance.enable", { timeDomain: "threadTicks" });
  await page.goto(pathToFileURL(join(PAGES, "large.html")).href);
  await page.waitForFunction(() => document.documentElement.dataset.figures === "ready");
  const { metrics } = await client.send("Performance.getMetrics");
  const [seconds, nodes] = ["TaskDuration", "Nodes"].map((name) => metrics.find((m) => m.name === name).value);
  console.log(
    `large report: ${(bytes / 1e6).toFixed(2)} MB, ${nodes} nodes, ${seconds.toFixed(2)} s of the main thread`,
  );
  assert.ok(bytes < 5e6, `${bytes} bytes`);
  assert.ok(nodes > 0 && nodes < 10000, `${nodes} nodes`);
  await unfoldTables(page);
  const text = await page.locator("main").innerText();
  assert.match(text, /These are the first 150 of 1000000 rows\. Every digit of all 1000000 rows and 6 columns/);
  assert.match(text, /All 1000000 rows in summary/);
  assert.match(await page.locator("figcaption").first().innerText(), /\d+ of the table's 1000000 rows are here/);
  await context.close();
});

test("RP04 without JavaScript the tables, findings and commands are there", async () => {
  const { page, trouble, close } = await open("all", { javaScriptEnabled: false }, { drawn: false });
  await page.locator("summary", { hasText: "Distance from the infinite-token limit" }).click();
  assert.equal(await page.locator("details[open] table").first().isVisible(), true);
  await unfoldTables(page);
  const text = await page.locator("body").innerText();
  for (const words of [
    "falls like",
    "Of 90 directions, 0 have heavier tails than Gaussian tokens.",
    "Distance from the infinite-token limit",
    "esscher claims --effort quick --out claims.run",
    "Figures are drawn by JavaScript",
    "contradicted",
  ])
    assert.ok(text.includes(words), words);
  assert.deepEqual(trouble, []);
  await close();
});

test("RP04 320 pixels are enough", async () => {
  for (const name of ["all", "hostile", "odd", "large"]) {
    const { page, close } = await open(name, { viewport: { width: 320, height: 640 } });
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(width <= 320, `${name}: ${width} pixels wide`);
    const outside = await page.$$eval(
      "figure svg",
      (all) => all.filter((s) => s.getBoundingClientRect().right > 321).length,
    );
    assert.equal(outside, 0);
    await close();
  }
});

test("RP04 dark and light, also when the reader changes between them", async () => {
  const { page, close } = await open("all", { colorScheme: "light" });
  const look = () =>
    page.evaluate(() => ({
      paper: getComputedStyle(document.body).backgroundColor,
      label: document.querySelector("figure svg .role-axis-label text").getAttribute("fill"),
    }));
  const hex = (c) =>
    c.startsWith("#")
      ? c
          .slice(1)
          .match(/../g)
          .map((h) => parseInt(h, 16))
          .join()
      : c;
  const day = await look();
  await page.emulateMedia({ colorScheme: "dark" });
  await page.waitForFunction(
    (old) => document.querySelector("figure svg .role-axis-label text")?.getAttribute("fill") !== old,
    day.label,
  );
  const night = await look();
  assert.ok(light(day.paper) > 240 && light(night.paper) < 40);
  assert.ok(light(hex(day.label)) < 120 && light(hex(night.label)) > 140);
  await close();
});

test("RP04 on paper nothing is hidden behind a scroll bar", async () => {
  const { page, close } = await open("all", { colorScheme: "dark" });
  await page.emulateMedia({ media: "print", colorScheme: "light" });
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  const state = await page.evaluate(() => ({
    cut: [...document.querySelectorAll(".scroll")].filter((s) => s.scrollHeight > s.clientHeight + 1).length,
    buttons: [...document.querySelectorAll(".save")].filter((s) => s.offsetParent).length,
    paper: getComputedStyle(document.body).backgroundColor,
    figures: document.querySelectorAll("figure svg").length,
  }));
  assert.equal(state.cut, 0);
  assert.equal(state.buttons, 0);
  assert.equal(light(state.paper), 255);
  assert.ok(state.figures >= 34);
  const pdf = await page.pdf({ format: "A4" });
  assert.equal(pdf.subarray(0, 4).toString(), "%PDF");
  await close();
});

test("RP04 the keyboard reaches everything, in order, and sees where it is", async () => {
  const { page, close } = await open("all");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  const stops = new Set();
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press("Tab");
    stops.add(
      await page.evaluate(() => {
        const e = document.activeElement;
        const ring = getComputedStyle(e).outlineStyle !== "none";
        return `${e.closest(".legend") ? "legend" : e.closest(".save") ? "save" : e.className || e.tagName}${ring ? "" : " without a ring"}`;
      }),
    );
  }
  for (const stop of ["A", "SUMMARY", "legend", "save"]) assert.ok(stops.has(stop), `${stop} in ${[...stops]}`);
  assert.equal([...stops].filter((s) => s.includes("without")).length, 0, [...stops].join());
  await close();
});

// Contrast is a third of what axe takes. In the light every text of every figure is looked at; in the dark, where the same few
// colours are others, those of the figures that are open at first; a narrow page has the light one's.
const contrast = "color-contrast";
for (const [what, name, options, rules] of [
  ["light", "all", { colorScheme: "light" }],
  ["dark", "all", { colorScheme: "dark" }, { runOnly: [contrast] }],
  ["narrow", "all", { viewport: { width: 320, height: 640 } }, { rules: { [contrast]: { enabled: false } } }],
  ["odd", "odd", {}],
  ["few", "few", {}],
  ["hostile", "hostile", {}],
])
  test(`RP04 axe finds nothing that keeps people out: ${what}`, async () => {
    const { page, close } = await open(name, options, { folded: what === "dark" });
    await page.evaluate(axe);
    const { violations } = await page.evaluate(
      (only) => axe.run(document, { resultTypes: ["violations"], ...only }),
      rules,
    );
    assert.deepEqual(
      violations.map(
        (v) =>
          `${v.id}: ${v.nodes
            .slice(0, 3)
            .map((n) => n.target + " " + n.failureSummary)
            .join(" | ")}`,
      ),
      [],
    );
    await close();
  });
