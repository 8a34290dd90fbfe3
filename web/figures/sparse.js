/* SPDX-License-Identifier: Apache-2.0 */
// sparse.js : which policy a head wants: a map of the best, errors of one head against the keys that are kept, and the
// papers' protocol.
import { groupBy, isNumber, show } from "../tables.js";
import { headName, headOf, pickOf } from "./heads.js";
import { heatMap } from "./heat-map.js";

const Z = 2; // standard errors to either side

// What stands in a cell: first letters, and * for corrected weights.
const letters = (word) =>
  (word ?? "")
    .split("+")[0]
    .split("-")
    .map((w) => w[0])
    .join("") + (word?.includes("+inverse") ? "*" : "");

// ---- the best policy of every head ----

function legend(rows) {
  const words = [...new Set(rows.map((r) => r.best))];
  return words.map((w) => `${letters(w)}: ${w}`).join(", ");
}

function maps(heads, curves) {
  const groups = groupBy(heads, "keys").sort(([a], [b]) => a - b);
  const options = groups.map(([keys, rows]) => ({
    name: `${show(keys)} keys`,
    figure: () =>
      heatMap({
        rows: rows.map((r) => ({ ...r, log: r.best_error > 0 ? Math.log10(r.best_error) : null, sign: letters(r.best) })),
        table: "heads",
        title: `The best policy of each head at ${show(keys)} keys`,
        caption:
          `Colour: error of the best policy, in spreads, log₁₀. In the cell: which it is (${legend(rows)}).` +
          (curves ? " Press a cell for its curves." : ""),
        x: { key: "head", title: "head" },
        y: { key: "layer", title: "layer" },
        value: { key: "log", sign: "sign", title: "log₁₀ of its error" },
        more: [
          { key: "best_error", title: "its error, spreads" },
          { key: "random", title: "random" },
          { key: "top", title: "top" },
          { key: "bigbird", title: "BigBird as published" },
          { key: "bigbird_inverse", title: "BigBird corrected" },
          { key: "limit", title: "limit" },
          { key: "ess", title: "effective keys" },
        ],
        pick: curves && ((r) => ({ at: headOf(r), pick: pickOf(r, false) })),
      })[0],
  }));
  return options.some(({ figure }) => figure()) && heads.length > groups.length
    ? [{ open: true, label: "Map at", options: options.filter(({ figure }) => figure()) }]
    : [];
}

// ---- one head ----

const limit = { name: "limit of independent policies", colour: 7, dash: [6, 4] };

const COLOURS = 7; // of policies; from the eighth on they come again, dashed and open

function layersOf(each, again) {
  return [
    {
      kind: "line",
      name: again ? "policies, dashed" : "policies",
      ...(again ? { dash: [3, 3] } : {}),
      rows: each((r) => ({ y: r.relative_error })),
    },
    {
      kind: "bars",
      name: "two standard errors",
      rows: each((r) => ({
        lo: r.relative_error - Z * r.relative_error_se,
        hi: r.relative_error + Z * r.relative_error_se,
      })),
    },
    {
      kind: "points",
      name: "measured",
      hollow: again,
      rows: each((r) => ({
        y: r.relative_error,
        tip: [
          ["policy", r.asked],
          ["keys", show(r.keys)],
          ["error, spreads", show(r.relative_error, r.relative_error_se)],
          ["limit", show(r.relative_limit)],
          ["mass kept", show(r.mass)],
          ["bias²", show(r.bias2)],
          ["variance", show(r.variance)],
        ],
      })),
    },
  ];
}

function curvesOf(name, rows) {
  const groups = groupBy(rows, "asked");
  const of = (some) => (f) => some.flatMap(([series, those]) => those.map((r) => ({ series, x: r.keys, ...f(r) })));
  const more = groups.slice(COLOURS);
  const limits = groupBy(rows, "keys").flatMap(([x, those]) => {
    const y = those.map((r) => r.relative_limit).find(isNumber);
    return isNumber(y) ? [{ series: limit.name, x, y }] : [];
  });
  return {
    title: `Errors of ${name}`,
    caption:
      "Root mean square error of the output against the number of keys kept, in spreads of the values around it, with two " +
      "standard errors over contexts or queries. Grey: the smallest of unbiased policies that keep keys " +
      "independently, to first order; a biased policy may be below it.",
    table: "rows",
    x: { title: "keys kept", log: true },
    y: { title: "error, spreads", log: true },
    series: [...groups.map(([series], i) => ({ name: series, colour: i % COLOURS })), limit],
    layers: [
      { kind: "line", name: limit.name, dash: limit.dash, width: 2.2, rows: limits },
      ...layersOf(of(groups.slice(0, COLOURS)), false),
      ...(more.length ? layersOf(of(more), true) : []),
    ],
  };
}

function curves(rows) {
  const groups = groupBy(
    rows.map((r) => ({ ...r, name: headName(r, false) })),
    "name",
  );
  const options = groups.map(([name, of]) => ({
    name,
    group: `layer ${of[0].layer}`,
    pick: pickOf(of[0], false),
    figure: () => curvesOf(name, of),
  }));
  return options.length ? [{ open: true, picks: true, label: "Head:", options }] : [];
}

// ---- the papers' protocol ----

const errors = [
  { key: "mse", title: "mean square error" },
  { key: "mean_error", title: "error of the mean" },
  { key: "cov_error", title: "error of the covariance" },
];

function paperOf(name, rows, { key, title }) {
  const groups = groupBy(rows, "scheme");
  const each = (f) => groups.flatMap(([series, of]) => of.map((r) => ({ series, x: r.keys, ...f(r) })));
  const se = `${key}_se`;
  return {
    title: `${title[0].toUpperCase()}${title.slice(1)} of ${name} by the papers' protocol`,
    caption:
      "One set of keys for all queries, against attention over the whole text; mean over draws with two standard errors.",
    table: "paper_rows",
    x: { title: "keys m", log: true },
    y: { title, log: true },
    series: groups.map(([series], i) => ({ name: series, colour: i })),
    layers: [
      { kind: "line", name: "schemes", rows: each((r) => ({ y: r[key] })) },
      {
        kind: "bars",
        name: "two standard errors",
        rows: each((r) => ({ lo: r[key] - Z * r[se], hi: r[key] + Z * r[se] })),
      },
      {
        kind: "points",
        name: "measured",
        rows: each((r) => ({
          y: r[key],
          tip: [
            ["scheme", r.scheme],
            ["keys", show(r.keys)],
            [title, show(r[key], r[se])],
          ],
        })),
      },
    ],
  };
}

function paper(rows) {
  const groups = groupBy(
    rows.map((r) => ({ ...r, name: headName(r, false) })),
    "name",
  );
  const options = errors.flatMap((error) =>
    groups.map(([name, of]) => ({
      name: `${error.title}, ${name}`,
      group: error.title,
      figure: () => paperOf(name, of, error),
    })),
  );
  return options.length ? [{ open: true, label: "Figure:", options }] : [];
}

export function sparse({ tables: { heads, rows, paper_rows: papers } }) {
  const drawn = (rows ?? []).filter((r) => isNumber(r.relative_error));
  const lines = curves(drawn);
  return [...maps(heads ?? [], lines.length > 0), ...lines, ...paper(papers ?? [])];
}
