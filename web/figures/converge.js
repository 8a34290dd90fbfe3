/* SPDX-License-Identifier: Apache-2.0 */
// converge.js : errors against n, and their rates against the horizon.
import { extent, grid, groupBy, highest, isNumber, show } from "../tables.js";

const measures = [
  {
    key: "mean_error",
    rate: "rate_mean",
    predicted: "predicted_mean_error_rms",
    name: "mean error",
    symbol: "|mₙ − m|",
    what: "Mean error",
  },
  {
    key: "cov_error",
    rate: "rate_cov",
    predicted: "predicted_cov_error",
    name: "covariance error",
    symbol: "‖Cₙ − C‖",
    what: "Covariance error",
  },
  {
    key: "map_error",
    rate: "rate_map",
    predicted: "predicted_map_error",
    name: "map error",
    symbol: "rms |Γₙ(x) − Γ(x)|",
    what: "Error of single outputs",
  },
];

const Z = 2; // standard errors to either side

const seriesName = (scale, fit) =>
  `scale ${show(scale)}${fit && isNumber(fit.horizon) ? ` (H = ${Number(fit.horizon.toPrecision(3))})` : ""}`;

// A right triangle below the curves whose long side falls like n^-1/2.
function triangle(points) {
  const n = extent(points.map((p) => p.x));
  const e = extent(points.filter((p) => p.y > 0).map((p) => p.y));
  if (!n || !e || n[1] / n[0] < 4) return [];
  const left = n[0] * 1.15;
  const right = left * (n[1] / n[0]) ** 0.28;
  const low = e[0] * 0.72;
  const high = low * Math.sqrt(right / left);
  const corners = [
    [left, high],
    [right, low],
    [left, low],
    [left, high],
  ];
  return [
    {
      kind: "line",
      name: "slope −1/2",
      plain: true,
      width: 1.1,
      rows: corners.map(([x, y], k) => ({ series: "slope", x, y, k })),
    },
    { kind: "label", rows: [{ series: "slope", x: right, y: low, label: "slope −½" }] },
  ];
}

// With predictions beside them errors are root mean squares over replicates, as predictions are; without, means, and
// the power that was fitted to them.
function errorFigure(run, measure) {
  const { key, rate, predicted: predictedKey } = measure;
  const groups = groupBy(run.tables.rows, "scale");
  const fits = new Map((run.tables.fits ?? []).map((f) => [f.scale, f]));
  const predictions = groupBy(run.tables.predictions ?? [], "scale");
  const square = predictions.length > 0 && run.tables.rows.some((r) => isNumber(r[`${key}_rms`]));
  const shown = square ? `${key}_rms` : key;
  const points = [],
    bands = [],
    fitted = [],
    predicted = [];
  for (const [scale, rows] of groups) {
    const fit = fits.get(scale);
    const series = seriesName(scale, fit);
    for (const r of rows) {
      const [y, se] = [r[shown], r[`${shown}_se`]];
      points.push({
        series,
        x: r.n,
        y,
        tip: [
          ["n", show(r.n)],
          [measure.name, show(y, se)],
          ...(r[`${key}_flag`] ? [["not in the fit", r[`${key}_flag`]]] : []),
        ],
      });
      if (isNumber(y) && isNumber(se)) bands.push({ series, x: r.n, lo: y - Z * se, hi: y + Z * se });
    }
    const [slope, level] = [fit?.[rate], fit?.[`${rate}_intercept`]];
    if (!square && isNumber(slope) && isNumber(level))
      for (const n of extent(rows.map((r) => r.n)))
        fitted.push({ series, x: n, y: Math.exp(level - slope * Math.log(n)) });
  }
  for (const [scale, rows] of square ? predictions : [])
    for (const r of rows) predicted.push({ series: seriesName(scale, fits.get(scale)), x: r.n, y: r[predictedKey] });
  return {
    title: `${measure.what} against the number of tokens`,
    caption: square
      ? `${measure.symbol} over n, root mean square over replicates. Points with bands of two standard errors: measured. Dashed: what theory predicts from the law and the head alone.`
      : `${measure.symbol} over n, averaged over replicates. Points with bands of two standard errors: measured. Solid: weighted fit of a power of n.`,
    table: "rows",
    x: { title: "n, tokens", log: true },
    y: { title: measure.name, log: true },
    series: groups.map(([scale], i) => ({ name: seriesName(scale, fits.get(scale)), colour: i })),
    layers: [
      { kind: "band", name: "two standard errors", rows: bands },
      { kind: "line", name: "fit", width: 1.3, opacity: 0.9, rows: fitted },
      { kind: "line", name: "predicted", dash: [5, 4], width: 1.5, rows: predicted },
      { kind: "points", name: "measured", rows: points },
      ...triangle([...points, ...predicted]),
    ],
  };
}

// ---- rates ----

// Powers for n to infinity, up to logarithms; the paper's is a bound.
const exponents = {
  bound: (h) => 0.5 / (1 + h * h),
  mean_error: (h) => Math.min(0.5, 1 / (1 + h * h)),
  map_error: (h) => (h * h <= 0.5 ? 0.5 : 0.25 * (Math.sqrt(1 + 4 / (h * h)) - 1)),
};

function rateFigure(run) {
  const fits = run.tables.fits.filter((f) => isNumber(f.horizon));
  const reach = highest(fits.map((r) => r.horizon), 1) * 1.12;
  const curve = (series, f) => grid(0, reach, 80).map((x) => ({ series, x, y: f(x) }));
  const points = [],
    bars = [],
    expected = [];
  for (const [i, { rate, name }] of measures.entries())
    for (const fit of fits) {
      const x = fit.horizon + (i - 1) * 0.011 * reach; // side by side
      const [lo, hi] = [fit[`${rate}_ci.0`], fit[`${rate}_ci.1`]];
      const slope = fit[`predicted.${rate}`]; // the same fit, through what was predicted
      const tip = [
        ["H", show(fit.horizon)],
        ["scale", show(fit.scale)],
        ["rate", show(fit[rate], fit[`${rate}_se`])],
      ];
      if (isNumber(slope)) tip.push(["predicted here", show(Number(slope.toFixed(3)))]);
      tip.push(["bound", show(Number(exponents.bound(fit.horizon).toFixed(3)))]);
      points.push({ series: name, of: { horizon: fit.horizon, scale: fit.scale }, x, y: fit[rate], tip });
      if (isNumber(lo) && isNumber(hi)) bars.push({ series: name, of: { horizon: fit.horizon, scale: fit.scale }, x, lo, hi });
      if (isNumber(slope)) expected.push({ series: name, of: { horizon: fit.horizon, scale: fit.scale }, x, y: slope, tip });
    }
  const bound = "bound 1/(2(1 + H²))";
  return {
    title: "Rates against the horizon",
    caption:
      "Error ∼ n^−rate. Points with 95 % intervals: fitted to the measured errors; marks of one H stand side by side." +
      (expected.length ? " Open diamonds: the slope that theory predicts over these very n." : "") +
      " Grey: the paper's exponent, a lower bound for n → ∞. Dashed: our asymptotic exponents, min(½, 1/(1 + H²)) of the mean and ¼(√(1 + 4/H²) − 1), at most ½, of single outputs.",
    table: "fits",
    x: { title: "horizon H", column: "horizon", zero: true },
    y: { title: "rate", zero: true },
    series: [...measures.map(({ name }, i) => ({ name, colour: i })), { name: bound, colour: 7 }],
    layers: [
      { kind: "line", name: "bound", width: 2.4, opacity: 0.8, rows: curve(bound, exponents.bound) },
      { kind: "line", name: "asymptotic", dash: [4, 4], width: 1.3, rows: curve("mean error", exponents.mean_error) },
      { kind: "line", name: "asymptotic", dash: [4, 4], width: 1.3, rows: curve("map error", exponents.map_error) },
      { kind: "bars", name: "95 % interval", rows: bars },
      { kind: "points", name: "predicted slope", shape: "diamond", hollow: true, size: 90, rows: expected },
      { kind: "points", name: "measured", rows: points },
    ],
  };
}

// The same with both axes logarithmic and H as the papers' code reports it, without the 1/sqrt(k) of the softmax.
function paperFigure(run) {
  const fits = run.tables.fits.filter((f) => f.horizon_unscaled > 0);
  const range = extent(fits.map((f) => f.horizon_unscaled));
  if (!range || range[0] === range[1]) return [];
  const bound = "1/(2(1 + H²))";
  const bars = measures.slice(0, 2).flatMap(({ rate, name }) =>
    fits
      .filter((f) => f[rate] > 0 && isNumber(f[`${rate}_se`]))
      .map((f) => ({
        series: name,
        x: f.horizon_unscaled,
        lo: f[rate] - f[`${rate}_se`],
        hi: f[rate] + f[`${rate}_se`],
      })),
  );
  const points = measures.slice(0, 2).flatMap(({ rate, name }) =>
    fits
      .filter((f) => f[rate] > 0)
      .map((f) => ({
        series: name,
        x: f.horizon_unscaled,
        y: f[rate],
        tip: [
          ["H of the paper's code", show(f.horizon_unscaled)],
          ["H", show(f.horizon)],
          ["rate", show(f[rate], f[`${rate}_se`])],
        ],
      })),
  );
  return [
    {
      title: "Rates against the horizon, as in the paper",
      caption:
        "Error ∼ n^−rate, both axes logarithmic, against H without the 1/√k of the softmax, as the paper's code reports it. " +
        "Bars: one standard error. Grey: the paper's exponent at that H; dashed: 1/2. Rates that are not positive are left out.",
      table: "fits",
      x: { title: "H without 1/√k", column: "horizon_unscaled", log: true },
      y: { title: "rate", log: true },
      series: [...measures.slice(0, 2).map(({ name }, i) => ({ name, colour: i })), { name: bound, colour: 7 }],
      layers: [
        {
          kind: "line",
          name: "the paper's exponent",
          width: 2.4,
          opacity: 0.8,
          rows: grid(range[0], range[1], 80, true).map((x) => ({ series: bound, x, y: exponents.bound(x) })),
        },
        {
          kind: "line",
          name: "1/2",
          plain: true,
          dash: [4, 4],
          width: 1.1,
          rows: range.map((x) => ({ series: bound, x, y: 0.5 })),
        },
        { kind: "bars", name: "one standard error", rows: bars },
        { kind: "points", name: "measured", rows: points },
      ],
    },
  ];
}

export function converge(run) {
  const figures = run.tables.rows
    ? measures.filter((m) => run.tables.rows.some((r) => m.key in r)).map((m) => errorFigure(run, m))
    : [];
  if (run.tables.fits?.length) figures.push(rateFigure(run), ...paperFigure(run));
  return figures;
}
