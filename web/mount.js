// mount.js : a figure on the page: plot, legend, caption, numbers under the pointer, and ways to take it away.
import { parse, View } from "vega";
import { expressionInterpreter } from "vega-interpreter";
import { compile } from "vega-lite";
import { clean, dataOf, specOf } from "./chart.js";
import { csvOf } from "./tables.js";
import { paperTheme, themeNow } from "./theme.js";

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Expressions are interpreted, never compiled: the page allows no eval.
function viewOf(spec, options) {
  const { spec: vega } = compile(spec);
  return new View(parse(vega, undefined, { ast: true }), { expr: expressionInterpreter, ...options });
}

// ---- numbers under the pointer ----

const tooltip = element("div", { class: "tooltip", hidden: "", "aria-hidden": "true" });
document.body.append(tooltip);

function showTip(handler, event, item, value) {
  const tip = value?.tip;
  tooltip.hidden = !tip;
  if (!tip) return;
  const list = element("dl");
  for (const [name, text] of tip) list.append(element("dt", {}, name), element("dd", {}, text));
  tooltip.replaceChildren(...(value.series ? [element("strong", {}, value.series)] : []), list);
  const { width, height } = tooltip.getBoundingClientRect();
  const left = event.clientX + 14 + width > innerWidth ? event.clientX - width - 10 : event.clientX + 14;
  const top = event.clientY + 14 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 14;
  tooltip.style.left = `${Math.max(4, left)}px`;
  tooltip.style.top = `${Math.max(4, top)}px`;
}

// ---- legend ----

function swatch(colour, dash) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  for (const [k, v] of Object.entries({ width: 22, height: 10, "aria-hidden": "true" })) svg.setAttribute(k, v);
  const stroke = document.createElementNS(ns, "line");
  for (const [k, v] of Object.entries({ x1: 1, x2: 21, y1: 5, y2: 5, "stroke-width": 3, stroke: `var(--s${colour})` }))
    stroke.setAttribute(k, v);
  if (dash) stroke.setAttribute("stroke-dasharray", dash.join(" "));
  svg.append(stroke);
  return svg;
}

function legendOf(figure, hidden, changed) {
  const list = element("ul", { class: "legend", "aria-label": "Series: press to hide or show" });
  for (const series of figure.series) {
    const button = element(
      "button",
      { type: "button", "aria-pressed": "true" },
      swatch(series.colour % 8, series.dash),
      series.name,
    );
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

function download(name, blob) {
  const url = URL.createObjectURL(blob);
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

const plainName = (title) =>
  title
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "");

function saveBar(figure, link) {
  const name = plainName(figure.title);
  const still = () =>
    viewOf(specOf(figure, paperTheme, { width: 680, height: Math.max(heightOf(figure), 420), legend: true }), {
      renderer: "none",
    });
  const ways = {
    SVG: async () => download(`${name}.svg`, new Blob([await still().toSVG()], { type: "image/svg+xml" })),
    PNG: async () => (await still().toCanvas(2)).toBlob((blob) => download(`${name}.png`, blob)),
    CSV: async () => download(`${name}.csv`, new Blob([csvOf(dataOf(figure))], { type: "text/csv" })),
  };
  const bar = element("div", { class: "save" }, "Save as");
  for (const [label, save] of Object.entries(ways)) {
    const button = element("button", { type: "button", "aria-label": `Save “${figure.title}” as ${label}` }, label);
    button.addEventListener("click", save);
    bar.append(button);
  }
  if (link) bar.append(element("a", { href: `#${link}` }, "its numbers in a table"));
  return bar;
}

// ---- when ----

// Figures are drawn one at a time: those in sight first, the others while nothing else is to do, so that a page with
// many is there at once. drawAll() resolves when the last one is drawn.
const waiting = new Map();
const seen = new IntersectionObserver((entries) => entries.forEach((e) => e.isIntersecting && drawNow(e.target)), {
  rootMargin: "200px",
});

function enqueue(plot, draw) {
  waiting.set(plot, draw);
  seen.observe(plot);
}

function drawNow(plot) {
  seen.unobserve(plot);
  const draw = waiting.get(plot);
  waiting.delete(plot);
  draw?.();
}

export async function drawAll() {
  const idle = window.requestIdleCallback ?? setTimeout;
  while (waiting.size) {
    await new Promise((resolve) => idle(resolve));
    if (waiting.size) drawNow(waiting.keys().next().value);
  }
}

// ---- all of it ----

const heightOf = (figure) => figure.height ?? 320;

function describe(figure) {
  const names = figure.series.map((s) => s.name).join("; ");
  return `${figure.title}. Horizontally: ${figure.x.title}; vertically: ${figure.y.title ?? "one line for each name"}.${names ? ` Series: ${names}.` : ""} The numbers are in the table below.`;
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
  const caption = element("figcaption", { id: `${id}-caption` }, figure.caption);
  for (const note of notes) caption.append(" ", element("span", { class: "warn" }, note));
  const hidden = new Set();
  let view = null;
  let drawn = 0; // width of the plot in its last drawing
  const frame = element(
    "figure",
    { class: figure.wide ? "figure wide" : "figure", id, "aria-labelledby": `${id}-title` },
    element("h3", { id: `${id}-title` }, figure.title),
  );
  if (figure.series.length > 1)
    frame.append(legendOf(figure, hidden, () => view?.signal("hidden", [...hidden]).runAsync()));
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
    drawn = plot.clientWidth;
    view?.finalize();
    plot.replaceChildren();
    view = viewOf(specOf(figure, themeNow(), { width: drawn, height: heightOf(figure) }), {
      renderer,
      container: plot,
      hover: true,
    });
    view
      .tooltip(showTip)
      .signal("hidden", [...hidden])
      .run();
    view.addEventListener("click", (event, item) => {
      if (item?.datum?.pick) plot.dispatchEvent(new CustomEvent("pick", { bubbles: true, detail: item.datum.pick }));
    });
    plot.firstElementChild.setAttribute("aria-hidden", "true"); // the label says it; marks have no names of their own
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw, { signal });
  addEventListener("beforeprint", draw, { signal });
  addEventListener("afterprint", draw, { signal });
  signal?.addEventListener("abort", () => view?.finalize());
  enqueue(plot, () => {
    if (signal?.aborted) return;
    draw();
    new ResizeObserver(() => {
      if (plot.clientWidth !== drawn && plot.clientWidth > 0) draw();
    }).observe(plot);
  });
}
