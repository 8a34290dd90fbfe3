/* SPDX-License-Identifier: Apache-2.0 */
// measure.js : what the heads of a dump do with their keys, and how far a given output is from theirs.
import { curves } from "./curves.js";
import { highest, isNumber, lowest, show } from "../tables.js";

const Z = 2; // standard errors to either side
const averaging = (n) => Math.min(100, (2 * n) / 3), // the cut-offs of the library's words
  SINGLE_KEY = 2;

// The words of the rows, those of most keys first.
const regimesOf = (rows) => {
  const most = (name) => highest(rows.filter((r) => r.regime === name).map((r) => r.ess));
  return [...new Set(rows.map((r) => r.regime))].sort((a, b) => most(b) - most(a));
};

const edges = (rows) => {
  const heads = rows.map((r) => r.head);
  return [lowest(heads) - 0.5, highest(heads) + 0.5];
};

// A grey line at y over all heads.
const across = (rows, y) => edges(rows).map((x, k) => ({ part: String(y), x, y, k }));

function headFigure(heads) {
  const rows = (heads ?? []).filter((r) => isNumber(r.ess));
  if (!rows.length) return [];
  const n = highest(rows.map((r) => r.n));
  const limits = [averaging(n), SINGLE_KEY].filter((y) => y < n);
  return [
    {
      title: "How many keys each head uses",
      caption:
        `Effective number of keys 1/Σw², mean over queries with two standard errors, of ${show(n)} keys. Dashed: from ` +
        `${show(averaging(n))} keys${n < 150 ? ", two thirds of them," : ""} on a head is averaging, below 2 it is single-key: ` +
        "one key has most of the weight.",
      table: "heads",
      x: { title: "head", domain: edges(rows), nice: false, whole: true },
      y: { title: "ESS, keys", log: true, domain: [0.8, 1.3 * n], nice: false },
      series: regimesOf(rows).map((name, colour) => ({ name, colour })),
      layers: [
        {
          kind: "line",
          name: "averaging, single-key",
          plain: true,
          dash: [3, 3],
          width: 1,
          rows: limits.flatMap((y) => across(rows, y)),
        },
        {
          kind: "bars",
          name: "two standard errors",
          rows: rows
            .filter((r) => isNumber(r.ess_se))
            .map((r) => ({ series: r.regime, x: r.head, lo: Math.max(0.8, r.ess - Z * r.ess_se), hi: r.ess + Z * r.ess_se })),
        },
        {
          kind: "points",
          name: "ESS",
          rows: rows.map((r) => ({
            series: r.regime,
            x: r.head,
            y: r.ess,
            tip: [
              ["head", show(r.head)],
              ["ESS", show(r.ess, r.ess_se)],
              ["entropy", show(r.entropy, r.entropy_se)],
              ["largest weight", show(r.top_weight, r.top_weight_se)],
              ...(isNumber(r.horizon) ? [["horizon H", show(r.horizon)]] : []),
              ["regime", r.regime],
            ],
          })),
        },
      ],
    },
  ];
}

// Several prefixes: how the number of keys grows with the context.
function prefixFigure(rows) {
  const several = (key) => new Set((rows ?? []).map((r) => r[key])).size > 1;
  if (!several("n")) return [];
  return curves({
    rows,
    table: "rows",
    title: "Keys used against keys seen",
    x: { key: "n", title: "n, keys", log: true },
    y: { title: "ESS, keys", log: true },
    name: (r) => (several("scale") ? `head ${show(r.head)}, b = ${show(r.scale)}` : `head ${show(r.head)}`),
    measured: "ess",
    caption: "An averaging head uses a fixed share of the keys; a single-key head uses one, however many there are.",
  });
}

function compareFigure(heads, verdict) {
  const rows = (heads ?? []).filter((r) => isNumber(r.ratio));
  if (!rows.length) return [];
  const name = (r) => (r.ratio <= 1 ? "met" : verdict?.met ? "met, scores rounded" : "not met");
  const series = ["met", "met, scores rounded", "not met"].filter((s) => rows.some((r) => name(r) === s));
  return [
    {
      title: "Is their output the attention you asked for?",
      caption:
        `The largest error of a row over the error that a kernel in ${verdict?.format ?? "its format"} may have, for ` +
        "each head. Above the dashed line it is not met.",
      table: "compare_heads",
      x: { title: "head", domain: edges(rows), nice: false, whole: true },
      y: { title: "error / expected error", log: true },
      series: series.map((s) => ({ name: s, colour: { met: 2, "not met": 1 }[s] ?? 0 })),
      layers: [
        { kind: "line", name: "expected", plain: true, dash: [3, 3], width: 1, rows: across(rows, 1) },
        {
          kind: "points",
          name: "error",
          rows: rows.map((r) => ({
            series: name(r),
            x: r.head,
            y: r.ratio,
            tip: [
              ["head", show(r.head)],
              ["error / expected", show(r.ratio)],
              ["in row", show(r.ratio_row)],
              ["largest error", show(r.largest)],
              ["rows beyond", show(r.beyond)],
            ],
          })),
        },
      ],
    },
  ];
}

export function measure({ tables: { heads, rows, compare_heads, compare } }) {
  return [...compareFigure(compare_heads, compare?.[0]), ...headFigure(heads), ...prefixFigure(rows)];
}
