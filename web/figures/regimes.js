/* SPDX-License-Identifier: Apache-2.0 */
// regimes.js : keys on the sphere across the critical inverse temperature: weights, their order, and the output.
import { classesIn } from "./classes.js";
import { curves } from "./curves.js";
import { isNumber, lowest, show } from "../tables.js";

const Z = 2; // standard errors to either side
const distinct = (rows, key) => [...new Set(rows.map((r) => r[key]))];

// A curve that does not depend on n, dashed: one for each dimension.
function withLimit([figure], rows, { name, x, y }) {
  if (!figure) return [];
  const dims = distinct(rows, "dim");
  const names = dims.map((d) => (dims.length > 1 ? `${name}, d = ${show(d)}` : name));
  const lines = dims.map((d, i) => {
    const seen = new Map(rows.filter((r) => r.dim === d && isNumber(y(r))).map((r) => [r[x], y(r)]));
    return [...seen].map(([at, value]) => ({ series: names[i], x: at, y: value }));
  });
  if (!lines.some((l) => l.length > 1)) return [figure];
  const dash = [6, 4];
  return [
    {
      ...figure,
      series: [...figure.series, ...names.map((n, i) => ({ name: n, colour: dims.length > 1 ? i + 4 : 7, dash }))],
      layers: [
        ...figure.layers.filter((l) => l.kind === "line"),
        ...lines.map((of) => ({ kind: "line", name, dash, rows: of })),
        ...figure.layers.filter((l) => l.kind !== "line"),
      ],
    },
  ];
}

function weightFigures(rows, name, x) {
  const kinds = [
    {
      key: "top_weight",
      title: "Largest weight",
      y: { title: "largest weight", share: true },
      about: "1: the nearest key has all of it.",
    },
    {
      key: "inverse_ess",
      title: "Concentration of the weights",
      y: { title: "Σ w²", log: true },
      about: "One over the effective number of keys.",
    },
  ];
  return kinds.flatMap(({ key, title, y, about }) =>
    withLimit(
      curves({
        rows,
        table: "rows",
        title,
        x,
        y,
        name,
        measured: key,
        law: `${key}_law`,
        caption:
          `${about} b = β n^(−1/α) is the inverse temperature in units of its critical scale, ` +
          "α = (d−1)/2 for uniform keys; the law is that of n keys, dashed its limit for n → ∞ at the same b.",
      }),
      rows,
      { name: "Poisson limit", x: x.key, y: (r) => r[`${key}_limit`] },
    ),
  );
}

// The weights in order: of each d and n, the largest n first, a curve for each b.
function orderFigures(rows) {
  const good = rows.filter((r) => isNumber(r["ordered.0"]) && isNumber(r["ordered_limit.0"]));
  const cells = [...new Map(good.map((r) => [`${r.dim} ${r.n}`, r])).values()].sort(
    (a, b) => a.dim - b.dim || b.n - a.n,
  );
  const options = cells.map(({ dim, n }) => ({
    name: `d = ${show(dim)}, n = ${show(n)}`,
    figure: () => orderFigure(good.filter((r) => r.dim === dim && r.n === n)),
  }));
  return options.length < 2 ? options.map(({ figure }) => figure()) : [{ label: "Keys:", options }];
}

function orderFigure(chosen) {
  const name = (r) => `b = ${show(r.b)}`;
  const each = (f) =>
    chosen.flatMap((r) => Array.from({ length: 8 }, (_, k) => ({ series: name(r), x: k + 1, ...f(r, k) })));
  const value = (r, k) => r[`ordered.${k}`],
    se = (r, k) => r[`ordered_se.${k}`];
  const tip = (r, k) => [
    ["k", show(k + 1)],
    ["weight", show(value(r, k), se(r, k))],
    ["limit", show(r[`ordered_limit.${k}`], r[`ordered_limit_se.${k}`])],
    ["p of the limit law", show(r[`ordered_ks_p.${k}`])],
  ];
  const seen = chosen.flatMap((r) => Array.from({ length: 8 }, (_, k) => value(r, k))).filter((v) => v > 0);
  const floor = Math.max(1e-6, lowest(seen) / 2);
  const below = chosen.flatMap((r) => Array.from({ length: 8 }, (_, k) => value(r, k))).filter((v) => v < floor).length;
  return {
    title: `Weights in order, n = ${show(chosen[0].n)}, d = ${show(chosen[0].dim)}`,
    caption:
      "Mean of the k-th largest weight. Points with two standard errors: measured over n keys. Lines: the " +
      "Poisson limit, from a sample of the same size; the p-values under the pointer compare the two " +
      "distributions." +
      (below ? ` ${below} weights below 10⁻⁶ are not drawn.` : ""),
    table: "rows",
    x: { title: "k, rank of the weight", domain: [0.7, 8.3], nice: false },
    y: { title: "k-th largest weight", log: true, domain: [floor, 1.3] },
    series: chosen.map((r, i) => ({ name: name(r), colour: i })),
    layers: [
      {
        kind: "line",
        name: "limit",
        rows: each((r, k) => ({ y: r[`ordered_limit.${k}`] })).filter((r) => r.y >= floor),
      },
      {
        kind: "bars",
        name: "two standard errors",
        rows: each((r, k) => ({
          lo: Math.max(floor, value(r, k) - Z * se(r, k)),
          hi: value(r, k) + Z * se(r, k),
        })).filter((r) => r.hi > floor),
      },
      {
        kind: "points",
        name: "measured",
        rows: each((r, k) => ({ y: value(r, k), tip: tip(r, k) })).filter((r) => !(r.y < floor)),
      },
    ],
  };
}

// The subcritical variance falls with n: it belongs to each curve, dashed in the same colour.
function fluctuation(rows, name, x) {
  const [figure] = curves({
    rows,
    table: "rows",
    title: "Fluctuation: how far the output strays along the sphere",
    x,
    y: { title: "E |tangential part|²", log: true },
    name,
    measured: "tangential",
    law: "tangential_law",
    caption:
      "The law is that of n keys; dashed, where many keys share the weight: (d−1) D A_d(2β)/(2βn), D = " +
      "n/ESS, the variance of a Gaussian fluctuation.",
  });
  if (!figure) return [];
  const average = rows
    .map((r) => ({
      series: name(r),
      part: `${name(r)} average`,
      x: r.beta,
      y: (r.dim - 1) * r.tangential_variance_average,
    }))
    .filter((r) => isNumber(r.y) && r.y < 0.5);
  return [
    {
      ...figure,
      layers: [
        { kind: "line", name: "subcritical", dash: [6, 4], width: 1.2, opacity: 0.8, rows: average },
        ...figure.layers,
      ],
    },
  ];
}

function outputFigures(rows, name) {
  const x = { key: "beta", title: "β, inverse temperature", log: true };
  return [
    ...withLimit(
      curves({
        rows,
        table: "rows",
        title: "Bias: how far the output stays behind the query",
        x,
        y: { title: "1 − ⟨output, query⟩", log: true },
        name,
        measured: "deficit",
        law: "deficit_law",
        caption:
          "Dashed: the average over infinitely many keys, 1 − I_{d/2}(β)/I_{d/2−1}(β), which is (d−1)/(2β) " +
          "for large β. Where few keys share the weight the output is nearer the nearest of them.",
      }),
      rows,
      { name: "average over all keys", x: "beta", y: (r) => r.deficit_average },
    ),
    ...fluctuation(rows, name, x),
  ];
}

// ---- the largest weight, and the regimes ----

// The exact curve of one setting with its regimes shaded, and what was measured at its n.
function regimeFigures(curve, rows) {
  if (!curve?.length) return [];
  const { dim, n, averaging_beta: averaging, freezing_beta: single } = curve[0];
  const [low, high] = [curve[0].beta, curve.at(-1).beta];
  const ends = [low, averaging, single, high];
  const regimeNames = classesIn(curve.map((r) => r.regime));
  if (regimeNames.length !== ends.length - 1) return [];
  const shades = regimeNames.map(({ name }, i) => ({
    kind: "band",
    name,
    opacity: 0.13,
    rows: [ends[i], ends[i + 1]].map((x) => ({ series: name, x, lo: 0, hi: 1 })),
  }));
  const nearest = (x) => curve.reduce((a, b) => (Math.abs(Math.log(b.beta / x)) < Math.abs(Math.log(a.beta / x)) ? b : a));
  const words = regimeNames.map(({ name }, i) => {
    const x = Math.sqrt(ends[i] * ends[i + 1]);
    return { x, y: nearest(x).top_weight > 0.5 ? 0.06 : 0.94, label: name }; // away from the curve
  });
  const measured = rows.filter((r) => r.dim === dim && r.n === n && r.beta >= low && r.beta <= high);
  const at = (r) => ({ series: EXACT, x: r.beta });
  const tip = (r, weight, se) => [
    ["β", show(r.beta)],
    ["largest weight", show(weight, se)],
    ["effective keys", show(Number((1 / r.inverse_ess).toPrecision(3)))],
  ];
  return [
    {
      title: "When attention stops averaging: the largest weight against inverse temperature",
      caption:
        `Expected weight of the nearest of n = ${show(n)} keys on the sphere in ${show(dim)} dimensions. Line: exact. ` +
        "Points with two standard errors: measured. Averaging: 100 keys or more share the weight; single-key: fewer than 2 do.",
      table: "curve",
      x: { title: "β, inverse temperature", log: true, domain: [low, high] },
      y: { title: "largest weight", share: true },
      series: [{ name: EXACT, colour: 7, shape: "circle" }, ...regimeNames],
      direct: true,
      layers: [
        ...shades,
        {
          kind: "line",
          name: EXACT,
          width: 2.4,
          smooth: true,
          rows: curve.map((r) => ({ ...at(r), y: r.top_weight, tip: tip(r, r.top_weight) })),
        },
        {
          kind: "bars",
          name: "two standard errors",
          rows: measured.map((r) => ({
            ...at(r),
            lo: r.top_weight - Z * r.top_weight_se,
            hi: r.top_weight + Z * r.top_weight_se,
          })),
        },
        {
          kind: "points",
          name: "measured",
          rows: measured.map((r) => ({ ...at(r), y: r.top_weight, tip: tip(r, r.top_weight, r.top_weight_se) })),
        },
        { kind: "label", size: 13, bold: true, centre: true, rows: words },
      ],
    },
  ];
}

const EXACT = "largest weight";

export function regimes({ tables: { rows, curve } }) {
  if (!rows?.length) return [];
  const dims = distinct(rows, "dim").length > 1;
  const name = (r) => `${dims ? `d = ${show(r.dim)}, ` : ""}n = ${show(r.n)}`;
  const overN = distinct(rows, "b").length < 2 && distinct(rows, "n").length > 1;
  const x = overN ? { key: "n", title: "n, keys", log: true } : { key: "b", title: "b", log: true };
  const series = overN ? (r) => (dims ? `d = ${show(r.dim)}, b = ${show(r.b)}` : `b = ${show(r.b)}`) : name;
  return [...regimeFigures(curve, rows), ...weightFigures(rows, series, x), ...orderFigures(rows), ...outputFigures(rows, name)];
}
