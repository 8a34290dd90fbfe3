/* SPDX-License-Identifier: Apache-2.0 */
// positions.js : what the heads of a causal model do as their context grows: maps of all heads, and of the head that is
// picked where its weight is, how many keys it uses, what a window leaves out, weights and scores by distance.
import { groupBy, isNumber, show } from "../tables.js";
import { classesIn, classesOf, placesOf } from "./classes.js";
import { headName, headOf, pickOf } from "./heads.js";
import { heatMap } from "./heat-map.js";

const Z = 2; // standard errors to either side

// The effective context at the longest n: the last of its columns.
function contextOf(r) {
  const keys = Object.keys(r).filter((key) => /^effective_context\.\d+$/.test(key));
  const last = keys.sort((a, b) => Number(b.split(".")[1]) - Number(a.split(".")[1]))[0];
  return last ? r[last] : null;
}

// ---- maps ----

const quantities = [
  {
    key: "window_error",
    title: "error without far keys",
    log: true,
    caption:
      "How far outputs are off at the longest n if a query sees only the last 64 keys and the first 4, over their standard deviation: near below 0.1, far from 0.5 on.",
  },
  {
    key: "context",
    title: "effective context",
    log: true,
    caption: "Keys of the window that, with the first 4, gives outputs within the relative error, at the longest n.",
  },
  {
    key: "growth",
    title: "growth of the effective context",
    caption: "d ln w / d ln n over the last two octaves: 1, in proportion to the text; 0, not at all.",
  },
  { key: "sink_mass", title: "sink mass", caption: "Weight on the first 4 keys, at the longest n.", domain: [0, 1] },
  { key: "local_mass", title: "weight on the last 64 keys", caption: "At the longest n.", domain: [0, 1] },
  {
    key: "ess_typical",
    title: "effective number of keys",
    log: true,
    caption: "1/Σw² of the typical query at the longest n.",
  },
  {
    key: "single_key",
    title: "share of queries with a single key",
    caption: "1/Σw² below 2 at the longest n, by a key other than the first 4.",
    domain: [0, 1],
  },
  {
    key: "rests_on_sink",
    title: "share of queries that rest on a sink",
    caption: "1/Σw² below 2 at the longest n, by one of the first 4 keys.",
    domain: [0, 1],
  },
  { key: "entropy", title: "entropy, nats", caption: "Of a row of attention weights at the longest n." },
  {
    key: "freezing",
    title: "u, spread of scores over √(2 ln n)",
    caption: "Above 1 a few of n Gaussian scores would have all the weight.",
  },
  {
    key: "horizon_rotary",
    title: "horizon, with positions",
    caption: "Of queries and keys as they meet, rotated where the model rotates.",
  },
  { key: "horizon_plain", title: "horizon, content", caption: "Of queries and keys before their rotation." },
];

const more = [
  { key: "window_error", title: "error without far keys" },
  { key: "sink_mass", title: "first 4 keys" },
  { key: "local_mass", title: "last 64 keys" },
  { key: "ess_typical", title: "effective keys" },
];

function maps(heads, several) {
  const options = groupBy(heads, "domain").flatMap(([domain, rows]) =>
    [...placesOf(rows, "place", "window_error"), ...classesOf(rows, "concentration", "ess_typical"), ...quantities]
      .filter(({ key }) => new Set(rows.map((r) => r[key]).filter(isNumber)).size > 1)
      .map((value) => {
        const name = `${value.title}${several ? `: ${domain}` : ""}`;
        const figure = () =>
          heatMap({
            rows,
            table: "position_heads",
            title: `Heads by ${name}`,
            caption: `${value.caption} Press a cell for its curves.`,
            x: { key: "head", title: "head" },
            y: { key: "layer", title: "layer" },
            value,
            domain: value.domain,
            more: more.filter(({ key }) => key !== value.key),
            pick: (r) => ({ at: headOf(r), pick: pickOf(r, several) }),
          })[0];
        return { name, figure };
      }),
  );
  return options.length ? [{ open: true, label: "Colour:", options }] : [];
}

// ---- curves of one head ----

// measures: [{key, name, colour}], one series each, of rows against x.
function layersOf(rows, x, measures) {
  const each = (f) => measures.flatMap((m) => rows.map((r) => ({ series: m.name, x: x(r), ...f(r, m.key) })));
  return [
    { kind: "line", aside: true, rows: each((r, key) => ({ y: r[key] })) },
    {
      kind: "bars",
      name: "two standard errors",
      rows: each((r, key) => ({ lo: r[key] - Z * r[`${key}_se`], hi: r[key] + Z * r[`${key}_se`] })),
    },
    {
      kind: "points",
      name: "measured",
      rows: each((r, key) => ({
        y: r[key],
        tip: [
          ["from", show(r.from)],
          ["to", show(r.to ?? r.window)],
          ["value", show(r[key], r[`${key}_se`])],
        ],
      })),
    },
  ];
}

// Figures of a head by what they are about: {table, title, caption, x, y, measures, of}, of: from a row to its x.
const pages = [
  {
    label: "Where its weight is, head:",
    open: true,
    table: "positions",
    title: "Where the weight is as the context grows",
    caption:
      "Means over queries in bins of n, with two standard errors over blocks of text. Single key, on a sink: queries of which one key, not " +
      "of the first 4 or one of these, has most of the weight (1/Σw² below 2).",
    x: { title: "n, keys that a query sees", log: true },
    y: { title: "share", share: true },
    of: (r) => r.n,
    measures: [
      { key: "sink_mass", name: "first 4 keys", colour: 0 },
      { key: "local_mass", name: "last 64 keys", colour: 1 },
      { key: "top_weight", name: "largest weight", colour: 2 },
      { key: "single_key", name: "single key", colour: 3 },
      { key: "rests_on_sink", name: "on a sink", colour: 4 },
    ],
  },
  {
    label: "How many keys it uses, head:",
    open: true,
    table: "positions",
    title: "How many keys it uses as the context grows",
    caption:
      "Effective number of keys, 1/Σw², of the typical query and on average; and the window that, with the first 4 keys, gives outputs within the relative error. Two standard errors over blocks.",
    x: { title: "n, keys that a query sees", log: true },
    y: { title: "keys", log: true },
    of: (r) => r.n,
    measures: [
      { key: "ess_typical", name: "effective number, typical", colour: 0 },
      { key: "ess", name: "effective number, mean", colour: 1 },
      { key: "effective_context", name: "effective context", colour: 2 },
    ],
  },
  {
    label: "What a window leaves out, head:",
    table: "context_windows",
    title: "What a window leaves out at the longest n",
    caption:
      "Error of outputs over the last w keys and the first 4, over the outputs' standard deviation; and the share of the weight that these keys have.",
    x: { title: "w, keys of the window", log: true },
    y: { title: "error; weight", zero: true },
    tenth: true,
    of: (r) => r.window,
    measures: [
      { key: "error", name: "error", colour: 0 },
      { key: "mass", name: "weight", colour: 1 },
    ],
  },
  {
    label: "Weight by distance, head:",
    table: "distances",
    title: "Weight of a key by its distance, at the longest n",
    caption: "Of one key at this distance, mean over queries and keys of a bin; the first 4 keys are not among them.",
    x: { title: "distance + 1, keys", log: true },
    y: { title: "weight", log: true },
    of: (r) => r.from + 1,
    measures: [{ key: "weight", name: "weight of a key", colour: 0 }],
  },
  {
    label: "Scores by distance, head:",
    table: "distances",
    title: "Mean score by distance",
    caption:
      "Over all pairs of query and key at this distance: as they meet, before their rotation (content), and the difference, which is the rotation's.",
    x: { title: "distance + 1, keys", log: true },
    y: { title: "score, nats" },
    of: (r) => r.from + 1,
    measures: [
      { key: "score", name: "score", colour: 0 },
      { key: "score_plain", name: "content", colour: 1 },
      { key: "score_rotary", name: "rotation", colour: 2 },
    ],
  },
  {
    label: "How its scores spread, head:",
    table: "positions",
    title: "Spread of scores and entropy as the context grows",
    caption: "Standard deviation of a query's scores; u, that over √(2 ln n); entropy of its weights.",
    x: { title: "n, keys that a query sees", log: true },
    y: { title: "nats; u" , zero: true },
    of: (r) => r.n,
    measures: [
      { key: "score_sd", name: "spread of scores", colour: 0 },
      { key: "freezing", name: "u", colour: 1 },
      { key: "entropy", name: "entropy", colour: 2 },
    ],
  },
];

function figureOf(page, name, rows) {
  const measures = page.measures.filter(({ key }) => rows.some((r) => isNumber(r[key])));
  return {
    title: `${page.title}: ${name}`,
    caption: page.caption,
    table: page.table,
    x: page.x,
    y: page.y,
    tenth: page.tenth,
    series: measures.map(({ name: series, colour }) => ({ name: series, colour })),
    layers: layersOf(rows, page.of, measures),
  };
}

function pageOf(page, given, several) {
  const rows = (given ?? []).filter((r) => r.keys !== "sinks");
  const options = groupBy(
    rows.map((r) => ({ ...r, name: headName(r, several) })),
    "name",
  ).map(([name, of]) => ({
    name,
    group: `${several ? `${of[0].domain}, ` : ""}layer ${of[0].layer}`,
    pick: pickOf(of[0], several),
    figure: () => figureOf(page, name, of),
  }));
  return options.length ? [{ open: page.open, picks: true, label: page.label, options }] : [];
}

// ---- all heads ----

// One line for each head, coloured by its place.
function contexts(heads, positions, several) {
  const placeOf = new Map(heads.map((r) => [headName(r, several), r.place]));
  const rows = positions.filter((r) => r.effective_context > 0);
  const there = classesIn([...placeOf.values()]);
  if (!rows.length || !there.length) return []; // older runs have no places
  const at = (r) => ({
    series: placeOf.get(headName(r, several)),
    x: r.n,
    y: r.effective_context,
    at: headOf(r),
    pick: pickOf(r, several),
    tip: [
      ["head", headName(r, several)],
      ["n", show(r.n)],
      ["effective context", show(r.effective_context, r.effective_context_se)],
    ],
  });
  const ends = [rows[0].n, rows.at(-1).n];
  return [
    {
      title: "Effective context of every head as the text grows",
      caption:
        "The window that, with the first 4 keys, gives outputs within the relative error, one mark for each head and bin of n. Line: the whole context.",
      table: "positions",
      x: { title: "n, keys that a query sees", log: true },
      y: { title: "effective context, keys", log: true },
      series: there,
      layers: [
        { kind: "line", name: "all of it", plain: true, dash: [4, 3], rows: ends.map((v) => ({ x: v, y: v })) },
        { kind: "points", name: "heads", rows: rows.map(at) },
      ],
    },
  ];
}

export function positionFigures(tables, several) {
  const { position_heads: given = [], positions = [] } = tables;
  const heads = given.map((r) => ({ ...r, context: contextOf(r) }));
  if (!heads.length) return [];
  return [
    ...maps(heads, several),
    ...pages.flatMap((page) => pageOf(page, tables[page.table], several)),
    ...contexts(heads, positions, several),
  ];
}
