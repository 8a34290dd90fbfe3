/* SPDX-License-Identifier: Apache-2.0 */
// mount.js : a figure on the page: plot, legend, caption, numbers under the pointer, and ways to take it away.
import { parse, View } from "vega";
import { expressionInterpreter } from "vega-interpreter";
import { compile } from "vega-lite";
import { clean, dataOf, digitsOfCsv, endNames, heightOf, plainName, specOf, stillOf, styleOf } from "./chart.js";
import { download, downloadCsv, element } from "./elements.js";
import { paperTheme, themeNow } from "./theme.js";

// Expressions are interpreted, never compiled: the page allows no eval.
function viewOf(spec, options) {
  const { spec: vega } = compile(spec);
  return new View(parse(vega, undefined, { ast: true }), { expr: expressionInterpreter, ...options });
}

// Powers and indices of a line of text, e^(s R²) and γ_c, set as such.
function typeset(text) {
  const part = /(\^|(?<=(?<![\p{L}\p{N}_])\p{L})_)(?:\{([^}]*)\}|\(([^)]*)\)|([−\p{L}\p{N}/½]+))/gu;
  const pieces = [];
  let from = 0;
  for (const m of text.matchAll(part)) {
    pieces.push(text.slice(from, m.index), element(m[1] === "^" ? "sup" : "sub", {}, m[2] ?? m[3] ?? m[4]));
    from = m.index + m[0].length;
  }
  return [...pieces, text.slice(from)];
}

// ---- numbers under the pointer ----

const tooltip = element("div", { class: "tooltip", hidden: "", "aria-hidden": "true" });
document.body.append(tooltip);

function showTip(handler, event, item, value) {
  const tip = value?.tip;
  tooltip.hidden = !tip;
  if (!tip) return;
  const list = element("dl");
  for (const [name, text] of tip) list.append(element("dt", {}, ...typeset(name)), element("dd", {}, text));
  tooltip.replaceChildren(...(value.series ? [element("strong", {}, value.series)] : []), list);
  const { width, height } = tooltip.getBoundingClientRect();
  const left = event.clientX + 14 + width > innerWidth ? event.clientX - width - 10 : event.clientX + 14;
  const top = event.clientY + 14 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 14;
  tooltip.style.left = `${Math.max(4, left)}px`;
  tooltip.style.top = `${Math.max(4, top)}px`;
}

// ---- legend ----

// Outlines of Vega's shapes, 10 high and wide.
const outlines = {
  circle: "M5,0A5,5,0,1,1,-5,0A5,5,0,1,1,5,0Z",
  square: "M-4.4,-4.4H4.4V4.4H-4.4Z",
  cross: "M-5,-1.7H-1.7V-5H1.7V-1.7H5V1.7H1.7V5H-1.7V1.7H-5Z",
  diamond: "M-5,0L0,-5L5,0L0,5Z",
  "triangle-up": "M0,-5L5,4.4H-5Z",
  "triangle-down": "M0,5L-5,-4.4H5Z",
  "triangle-right": "M5,0L-4.4,5V-5Z",
  "triangle-left": "M-5,0L4.4,-5V5Z",
};

function drawing(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// A line, dashed as in the figure, with the shape of the points on it.
function swatch({ colour, dash, shape }, lines) {
  const [svg, ink] = [drawing("svg", { width: 26, height: 12, "aria-hidden": "true" }), `var(--s${colour % 8})`];
  if (lines || !outlines[shape]) {
    const line = drawing("line", {
      x1: 1,
      x2: 25,
      y1: 6,
      y2: 6,
      "stroke-width": outlines[shape] ? 1.6 : 3,
      stroke: ink,
    });
    if (dash?.length) line.setAttribute("stroke-dasharray", dash.join(" "));
    svg.append(line);
  }
  if (outlines[shape])
    svg.append(drawing("path", { d: outlines[shape], fill: ink, transform: "translate(13,6) scale(0.95)" }));
  return svg;
}

function legendOf(figure, hidden, changed) {
  const list = element("ul", { class: "legend", "aria-label": "Series: press to hide or show" });
  for (const series of styleOf(figure)) {
    const lines = figure.layers.some((l) => l.kind === "line" && l.rows.some((r) => r.series === series.name));
    const button = element("button", { type: "button", "aria-pressed": "true" }, swatch(series, lines), series.name);
    button.addEventListener("click", () => {
      if (!hidden.delete(series.name)) hidden.add(series.name);
      button.setAttribute("aria-pressed", String(!hidden.has(series.name)));
      changed();
    });
    list.append(element("li", {}, button));
  }
  return list;
}

// ---- taking it away ----

function saveBar(figure, link) {
  const name = plainName(figure.title);
  const still = () => viewOf(stillOf(figure, paperTheme), { renderer: "none" });
  const ways = {
    SVG: async () => download(`${name}.svg`, new Blob([await still().toSVG()], { type: "image/svg+xml" })),
    PNG: async () => (await still().toCanvas(2)).toBlob((blob) => download(`${name}.png`, blob)),
    CSV: async () => downloadCsv(name, dataOf(figure)),
  };
  const bar = element("div", { class: "save" }, "Save as");
  for (const [label, save] of Object.entries(ways)) {
    const button = element("button", { type: "button", "aria-label": `Save “${figure.title}” as ${label}` }, label);
    button.addEventListener("click", save);
    bar.append(button);
  }
  bar.append(element("small", {}, `CSV: ${digitsOfCsv}`));
  if (link) bar.append(element("a", { href: `#${link}` }, "its numbers in a table"));
  return bar;
}

// ---- when ----

// Figures are drawn one at a time: those in sight first, the others while nothing else is to do, so that a page with
// many is there at once.
const waiting = new Map();
const seen = new IntersectionObserver((entries) => entries.forEach((e) => e.isIntersecting && drawNow(e.target)), {
  rootMargin: "200px",
});

function enqueue(plot, draw) {
  waiting.set(plot, draw);
  seen.observe(plot);
  drawAll();
}

function drawNow(plot) {
  seen.unobserve(plot);
  const draw = waiting.get(plot);
  waiting.delete(plot);
  draw?.();
}

// Says on the page whether all figures that were asked for are drawn.
let busy = false;
export async function drawAll() {
  const idle = window.requestIdleCallback ?? setTimeout;
  if (busy) return;
  busy = true;
  document.documentElement.dataset.figures = "drawing";
  while (waiting.size) {
    await new Promise((resolve) => idle(resolve));
    if (waiting.size) drawNow(waiting.keys().next().value);
  }
  busy = false;
  document.documentElement.dataset.figures = "ready";
}

// ---- all of it ----

function describe(figure) {
  const names = figure.series.map((s) => s.name).join("; ");
  return `${figure.title}. Horizontally: ${figure.x.title}; vertically: ${figure.y.title ?? "one line for each name"}.${names ? ` Series: ${names}.` : ""} The numbers are in the table below.`;
}

// How many rows are drawn, by kind of mark: data-points="36".
function countsOf(figure) {
  const counts = {};
  for (const { kind, rows } of figure.layers) counts[`data-${kind}`] = (counts[`data-${kind}`] ?? 0) + rows.length;
  return counts;
}

// `signal` ends what the figure listens to, for figures that are replaced by others.
export function mount(place, given, run, id, signal) {
  const { figure, notes, empty } = clean(given);
  const source = run.sources[figure.table];
  if (source?.left) notes.push(source.left);
  const plot = element("div", {
    class: "plot",
    role: "img",
    "aria-label": describe(figure),
    "aria-describedby": `${id}-caption`,
  });
  const caption = element("figcaption", { id: `${id}-caption` }, ...typeset(figure.caption));
  for (const note of notes) caption.append(" ", element("span", { class: "warn" }, note));
  const hidden = new Set();
  const picked = () => run.selection?.head ?? "";
  let view = null;
  let drawn = 0; // width of the plot in its last drawing
  const frame = element(
    "figure",
    { class: figure.wide ? "figure wide" : "figure", id, "aria-labelledby": `${id}-title`, ...countsOf(figure) },
    element("h3", { id: `${id}-title` }, figure.title),
  );
  const legend =
    figure.series.length > 1 && !figure.direct && legendOf(figure, hidden, () => view?.signal("hidden", [...hidden]).runAsync());
  if (legend) frame.append(legend);
  plot.style.minHeight = `${heightOf(figure)}px`; // the page does not jump when it is drawn
  frame.append(plot, caption);
  place.append(frame);
  if (empty) {
    plot.replaceWith(
      element("p", { class: "note empty" }, "There is nothing to draw: no row of the table has the numbers for it."),
    );
    return;
  }
  frame.append(saveBar(figure, source?.id));

  // A page with tens of thousands of SVG elements is slow.
  const renderer = figure.layers.reduce((sum, l) => sum + l.rows.length, 0) > 3000 ? "canvas" : "svg";
  const draw = () => {
    if (!plot.clientWidth) return; // folded away; drawn when it has a width
    drawn = plot.clientWidth;
    view?.finalize();
    plot.replaceChildren();
    if (legend) legend.hidden = Boolean(endNames(figure, themeNow(), drawn)); // where lines have their names, no key
    view = viewOf(specOf(figure, themeNow(), { width: drawn, height: heightOf(figure) }), {
      renderer,
      container: plot,
      hover: true,
    });
    view
      .tooltip(showTip)
      .signal("hidden", [...hidden])
      .signal("picked", picked())
      .run();
    view.addEventListener("click", (event, item) => {
      if (item?.datum?.pick) plot.dispatchEvent(new CustomEvent("pick", { bubbles: true, detail: item.datum.pick }));
    });
    plot.firstElementChild.setAttribute("aria-hidden", "true"); // the label says it; marks have no names of their own
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw, { signal });
  addEventListener("beforeprint", draw, { signal });
  addEventListener("afterprint", draw, { signal });
  run.selection?.addEventListener("change", () => view?.signal("picked", picked()).runAsync(), { signal });
  signal?.addEventListener("abort", () => view?.finalize());
  enqueue(plot, () => {
    if (signal?.aborted) return;
    draw();
    new ResizeObserver(() => {
      if (plot.clientWidth !== drawn && plot.clientWidth > 0) draw();
    }).observe(plot);
  });
}
