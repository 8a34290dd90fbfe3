/* SPDX-License-Identifier: Apache-2.0 */
// head-curves.js : how one head's errors fall with n; the reader picks the head.
import { groupBy, isNumber, show } from "../tables.js";
import { headName, pickOf } from "./heads.js";

const Z = 2; // standard errors to either side
const measures = [
  { key: "map_error", name: "single outputs", colour: 0, predicted: "map_error_predicted" },
  { key: "mean_error", name: "mean output", colour: 1, predicted: "mean_error_gaussian" },
  { key: "cov_error", name: "their covariance", colour: 2, predicted: "cov_error_gaussian" },
];

const contiguous = { name: "single outputs, windows of the text", colour: 3 };

// Errors of windows, where the run has them.
function windowLayers(windows) {
  const each = (f) => windows.map((r) => ({ series: contiguous.name, x: r.n, ...f(r) }));
  const [value, se] = [(r) => r.window_error, (r) => r.window_error_se];
  const tip = (r) => [
    ["n", show(r.n)],
    ["error", show(value(r), se(r))],
    ["design effect", show(r.design_effect, r.design_effect_se)],
    ...(r.flag ? [["flag", r.flag]] : []),
  ];
  return [
    {
      kind: "bars",
      name: "two standard errors",
      rows: each((r) => ({ lo: value(r) - Z * se(r), hi: value(r) + Z * se(r) })),
    },
    { kind: "points", name: "windows", hollow: true, rows: each((r) => ({ y: value(r), tip: tip(r) })) },
  ];
}

// Dashed, in the colour of what it predicts: Gaussian tokens. Dotted: the weights that queries give the pool's tokens.
function predictionsOf(rows) {
  return measures.flatMap(({ name, predicted }) =>
    rows.filter((r) => isNumber(r[predicted])).map((r) => ({ series: name, x: r.n, y: r[predicted] })),
  );
}

// Errors in units of the outputs' spread: its power that a column is divided by.
const units = [
  { keys: /^(map|mean|window)_error/, power: 1 },
  { keys: /^cov_error/, power: 2 },
];

function inSpreads(row, spread) {
  const unit = (key) => spread ** (units.find((u) => u.keys.test(key))?.power ?? 0);
  return Object.fromEntries(Object.entries(row).map(([key, v]) => [key, isNumber(v) ? v / unit(key) : v]));
}

function curvesOf(name, head, given, windowsGiven) {
  const spread = head?.output_rms > 0 ? head.output_rms : null; // older runs do not have it
  const [rows, windows] = [given, windowsGiven].map((all) => (spread ? all.map((r) => inSpreads(r, spread)) : all));
  const measured = measures.filter(({ key }) => rows.some((r) => isNumber(r[key])));
  const each = (f) => measured.flatMap((m) => rows.map((r) => ({ series: m.name, x: r.n, ...f(r, m) })));
  const predictions = predictionsOf(rows);
  const sampling = rows
    .filter((r) => isNumber(r.map_error_sampling))
    .map((r) => ({ series: measures[0].name, x: r.n, y: r.map_error_sampling }));
  const own = head?.map_error_limit / (spread ?? 1);
  return {
    title: `Errors of ${name}`,
    caption: `Distance of attention over n tokens from attention over the whole pool${spread ? ", in spreads of the outputs (the covariance: in squares of it)" : ""}, with two standard errors.${predictions.length ? " Dashed: what Gaussian tokens of the same covariance would give the same queries." : ""}${sampling.length ? " Dotted: what the weights on the pool's own tokens say for large n." : ""}${windows.length ? " Open: windows of consecutive tokens of the text." : ""}${isNumber(own) ? ` The pool itself is off by ${show(Number(own.toPrecision(2)))} (single outputs).` : ""}`,
    table: "rows",
    x: { title: "n, tokens", log: true },
    y: { title: spread ? "error, spreads of the outputs" : "error", log: true },
    tenth: Boolean(spread),
    series: [...measured.map(({ name, colour }) => ({ name, colour })), ...(windows.length ? [contiguous] : [])],
    layers: [
      {
        kind: "line",
        name: "Gaussian tokens",
        dash: [5, 4],
        rows: predictions,
      },
      { kind: "line", name: "weights on the pool", dash: [1, 4], rows: sampling },
      {
        kind: "bars",
        name: "two standard errors",
        rows: each((r, { key }) => ({ lo: r[key] - Z * r[`${key}_se`], hi: r[key] + Z * r[`${key}_se`] })),
      },
      {
        kind: "points",
        name: "measured",
        rows: each((r, { key, predicted }) => ({
          y: r[key],
          tip: [
            ["n", show(r.n)],
            ["error", show(r[key], r[`${key}_se`])],
            ...(isNumber(r[predicted]) ? [["Gaussian tokens", show(r[predicted])]] : []),
            ...(r[`${key}_flag`] ? [["flag", r[`${key}_flag`]]] : []),
          ],
        })),
      },
      ...windowLayers(windows),
    ],
  };
}

// The choice of a head, which is the run's selection; nothing without curves.
export function headCurves(heads, rows, windows, several) {
  const measured = rows.filter((r) => measures.some(({ key }) => isNumber(r[key])));
  const groups = groupBy(
    measured.map((r) => ({ ...r, name: headName(r, several) })),
    "name",
  );
  const known = new Map(heads.map((h) => [headName(h, several), h]));
  const options = groups.map(([name, of]) => ({
    name,
    group: `${several ? `${of[0].domain}, ` : ""}layer ${of[0].layer}`,
    pick: pickOf(of[0], several),
    figure: () =>
      curvesOf(
        name,
        known.get(name),
        of,
        windows.filter((w) => headName(w, several) === name),
      ),
  }));
  return options.length ? [{ open: true, picks: true, label: "Head:", options }] : [];
}
