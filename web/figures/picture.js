/* SPDX-License-Identifier: Apache-2.0 */
// picture.js : a head's outputs over n tokens and in the limit, in one plane (esscher picture): one n after the other
// with a slider, all of them side by side, and what the plane cannot show.
import { extent, groupBy, isNumber, show } from "../tables.js";

const WIDE = 680 / 420; // of a plot, about: a unit is as long across as it is high

const placed = (points) => (points ?? []).filter((p) => isNumber(p.x) && isNumber(p.y));

// Around all points, so that places can be compared from n to n.
function frameOf(points) {
  const [left, right] = extent(points.map((p) => p.x));
  const [low, high] = extent(points.map((p) => p.y));
  const half = Math.max((right - left) / WIDE, high - low, 1e-12) * 0.54;
  const [x, y] = [(left + right) / 2, (low + high) / 2];
  return { x, y, half, across: [x - half * WIDE, x + half * WIDE], up: [y - half, y + half] };
}

// What may be read off the picture.
function caution(answer) {
  const trust = Number(answer.trustworthiness).toFixed(3);
  const share = (100 * Number(answer.variance_share)).toPrecision(3);
  return answer.method === "pca"
    ? `Principal components: the plane has ${share} % of the variance, and distances in it are at most the true ones.`
    : "t-SNE keeps neighbours, not distances: sizes of groups and gaps between them mean nothing. " +
        `Trustworthiness ${trust} (1: neighbours in the plane are neighbours).`;
}

const axisName = (answer, i) => (answer.method === "pca" ? `principal component ${i}` : `t-SNE ${i}`);

// ---- one n at a time ----

const tipOf = (p) => [
  ["query", show(p.query)],
  ["output's distance from its limit", show(p.distance)],
];

function overlay(set, own, limit, frame, answer) {
  const there = new Map(limit.map((p) => [p.query, p]));
  const [name, other] = [`over ${show(Number(set))} tokens`, "limit"];
  const dot = (series) => (p) => ({ series, x: p.x, y: p.y, of: { query: p.query, x: p.x }, tip: tipOf(p) });
  const ends = own
    .filter((p) => there.has(p.query))
    .flatMap((p) => [p, there.get(p.query)].map((q, k) => ({ series: name, part: `${p.query}`, k, x: q.x, y: q.y })));
  return {
    title: `Outputs over ${show(Number(set))} tokens and their limits`,
    caption: `${own.length} queries: each line leads from a query's output to its limit. ${caution(answer)}`,
    table: "points",
    height: 420,
    x: { title: axisName(answer, 1), domain: frame.across, nice: false },
    y: { title: axisName(answer, 2), domain: frame.up, nice: false },
    series: [
      { name, colour: 0, shape: "circle" },
      { name: other, colour: 1, shape: "square" },
    ],
    layers: [
      { kind: "line", name: "output to limit", plain: true, aside: true, width: 0.8, opacity: 0.3, rows: ends },
      { kind: "points", name: other, hollow: true, size: 34, rows: limit.map(dot(other)) },
      { kind: "points", name, size: 22, rows: own.map(dot(name)) },
    ],
  };
}

// ---- all of them ----

const quarters = ["upper left", "upper right", "lower left", "lower right"];

// By where a query's limit lies: groups of four colours that are mixed at a small n part as n grows.
function quarterOf(limit) {
  const middle = (values) => values.sort((a, b) => a - b)[values.length >> 1];
  const [x, y] = [middle(limit.map((p) => p.x)), middle(limit.map((p) => p.y))];
  return new Map(limit.map((p) => [p.query, quarters[(p.y < y ? 2 : 0) + (p.x < x ? 0 : 1)]]));
}

function panels(sets, limit, frame, answer) {
  const columns = sets.length < 4 ? sets.length : Math.ceil(Math.sqrt(sets.length));
  const [width, height] = [2.1 * WIDE * frame.half, 2.35 * frame.half];
  const corner = (i) => [(i % columns) * width, -Math.floor(i / columns) * height];
  const quarter = quarterOf(limit);
  const dots = sets.flatMap(([set, rows], i) => {
    const [right, up] = corner(i);
    return rows.map((p) => ({
      series: `limit ${quarter.get(p.query)}`,
      x: p.x - frame.x + right,
      y: p.y - frame.y + up,
      of: { set, query: p.query, x: p.x, y_place: p.y },
      tip: [["tokens", set], ...tipOf(p)],
    }));
  });
  const edges = sets.flatMap(([set], i) => {
    const [right, up] = corner(i);
    const [w, h] = [frame.half * WIDE, frame.half];
    const around = [[-w, -h], [w, -h], [w, h], [-w, h], [-w, -h]];
    return around.map(([x, y], k) => ({ part: set, k, x: right + x, y: up + y }));
  });
  const labels = sets.map(([set], i) => {
    const [right, up] = corner(i);
    const label = set === "limit" ? "limit" : `${show(Number(set))} tokens`;
    return { x: right - frame.half * WIDE, y: up + 1.1 * frame.half, label };
  });
  const rows = Math.ceil(sets.length / columns);
  return {
    title: "Every n beside the limit",
    caption:
      "The same plane in every panel; a query has the colour of the quarter in which its limit lies. " +
      caution(answer),
    table: "points",
    height: Math.min(720, 210 * rows + 60),
    x: {
      title: "one panel for each number of tokens",
      names: [],
      domain: [-1.05 * WIDE * frame.half, (columns - 1) * width + 1.05 * WIDE * frame.half],
      nice: false,
    },
    y: {
      title: answer.method === "pca" ? "principal components" : "t-SNE",
      names: [],
      column: "y_drawn",
      domain: [-(rows - 1) * height - 1.05 * frame.half, 1.25 * frame.half],
      nice: false,
    },
    series: quarters.map((name, colour) => ({ name: `limit ${name}`, colour })),
    layers: [
      { kind: "line", plain: true, aside: true, width: 0.8, opacity: 0.7, rows: edges },
      { kind: "points", name: "output", size: 9, rows: dots },
      { kind: "label", name: "panel", rows: labels },
    ],
  };
}

// ---- what it cannot show ----

function distances(rows, answer) {
  const kinds = [
    ["relative", "outputs", 0],
    ["relative_plane", "in the plane", 1],
  ];
  if (!rows?.some((r) => r.relative > 0)) return [];
  const of = (key, series) =>
    rows.map((r) => ({
      series,
      x: r.n,
      y: r[key],
      tip: [
        ["tokens", show(r.n)],
        ["distance over spread", show(r[key])],
        ["own limit nearest", show(key === "relative" ? r.own : r.own_plane)],
      ],
    }));
  return [
    {
      title: "Distance of outputs from their limits",
      caption:
        "Root mean square over queries, in units of the spread of the limits: of the outputs themselves, and of the " +
        "points that the picture shows. One draw of the tokens" +
        `${answer.limit === "pool" ? "; the limit is the whole pool" : ""}.`,
      table: "rows",
      x: { title: "n, tokens", log: true },
      y: { title: "distance over spread", log: true },
      series: kinds.map(([, name, colour]) => ({ name, colour })),
      layers: kinds.flatMap(([key, name]) => [
        { kind: "line", name, aside: true, rows: of(key, name) },
        { kind: "points", name, rows: of(key, name) },
      ]),
    },
  ];
}

export function picture({ answer, tables: { rows, points } }) {
  const all = placed(points);
  const sets = groupBy(all, "set");
  const limit = sets.find(([set]) => set === "limit")?.[1] ?? [];
  const about = answer ?? {};
  if (!limit.length || sets.length < 2) return distances(rows, about);
  const frame = frameOf(all);
  return [
    {
      label: "Number of tokens:",
      slider: true,
      options: sets
        .filter(([set]) => set !== "limit")
        .map(([set, own]) => ({ name: show(Number(set)), figure: () => overlay(set, own, limit, frame, about) })),
    },
    panels(sets, limit, frame, about),
    ...distances(rows, about),
  ];
}
