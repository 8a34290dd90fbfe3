/* SPDX-License-Identifier: Apache-2.0 */
// ball.js : growth of the worst error on a ball with its radius, and its fall with n.
import { extent, groupBy, highest, isNumber, line, lowest, show } from "../tables.js";

const Z = 2; // standard errors to either side

// ln(√n sup) over R²; on this axis e^(s R²) is a straight line of slope s.
function growthFigure(run) {
  const groups = groupBy(run.tables.rows, "n");
  const name = (n) => `n = ${show(n)}`;
  const points = [],
    bars = [],
    saturated = [];
  for (const [n, rows] of groups)
    for (const r of rows) {
      const [x, y] = [r.radius ** 2, r.scaled];
      const tip = [
        ["R", show(r.radius)],
        ["√n sup", show(y, r.scaled_se)],
        ...(isNumber(r.predicted) ? [["predicted", show(r.predicted, r.predicted_se)]] : []),
        ["one query", show(r.predicted_rms)],
        ...(r.flag ? [["flag", r.flag]] : []),
      ];
      (r.flag ? saturated : points).push({ series: name(n), x, y, tip });
      if (isNumber(r.scaled_se)) bars.push({ series: name(n), x, lo: y - Z * r.scaled_se, hi: y + Z * r.scaled_se });
    }
  const last = groups.at(-1)[1];
  const limits = [
    { name: "predicted, n → ∞", key: "predicted", colour: 6 },
    { name: "one query, n → ∞", key: "predicted_rms", colour: 7 },
  ].filter(({ key }) => last.some((r) => isNumber(r[key])));
  const slopes = slopeLines(run, points, extent([...points, ...saturated].map((p) => p.x)));
  return {
    title: "Growth of C(R) = √n sup |Γₙ − Γ| with the ball",
    caption:
      "Logarithm over R², so that e^(s R²) is straight. Filled: used in the fits. Open: saturated, a few tokens carry the softmax there and the growth must stop. " +
      "Predicted: the limit of √n sup; one query: the largest error of a single query, which is below it. " +
      "Lines through the first point: the sharp slope H₁²/2 of Gaussian tokens and the slope H₁² of the papers' bound.",
    table: "rows",
    x: { title: "R²", zero: true },
    y: { title: "√n · sup error", log: true },
    series: [
      ...groups.map(([n], i) => ({ name: name(n), colour: i % 6 })),
      ...limits.map(({ name: limit, colour }) => ({ name: limit, colour })),
      ...slopes.map(({ name: slope, dash }) => ({ name: slope, colour: 7, dash })),
    ],
    layers: [
      ...limits.map(({ name: limit, key }) => ({
        kind: "line",
        name: limit,
        width: 1.8,
        rows: last.map((r) => ({ series: limit, x: r.radius ** 2, y: r[key] })),
      })),
      ...slopes.map(({ dash, rows, name: slope }) => ({ kind: "line", name: slope, dash, width: 1.3, rows })),
      { kind: "bars", name: "two standard errors", rows: bars },
      { kind: "points", name: "measured", rows: points },
      { kind: "points", name: "saturated", hollow: true, rows: saturated },
    ],
  };
}

// Sharp and bounding slope, through the middle of the points at the smallest radius.
function slopeLines(run, points, range) {
  const growth = run.tables.growth?.at(-1);
  if (!growth || !points.length || !range) return [];
  const x0 = lowest(points.map((p) => p.x));
  const from = line(
    points
      .filter((p) => p.x === x0 && p.y > 0)
      .map((p) => [0, Math.log(p.y), 1])
      .flatMap((p) => [p, p]),
    0,
  );
  const top = highest(points.map((p) => p.y)) * 30; // the bound soon leaves the page
  const through = (s) =>
    [range[0], Math.min(range[1], x0 + Math.log(top / Math.exp(from.at(0))) / s)].map((x) => ({
      x,
      y: Math.exp(from.at(0) + s * (x - x0)),
    }));
  return [
    ["sharp slope H₁²/2", growth.slope_sharp, [6, 4]],
    ["bound's slope H₁²", growth.slope_bound, [2, 3]],
  ]
    .filter(([, s]) => from && isNumber(s) && s > 0)
    .map(([name, s, dash]) => ({ name, dash, rows: through(s).map((r) => ({ series: name, ...r })) }));
}

function fallFigure(run) {
  const groups = groupBy(run.tables.rows, "radius");
  const name = (R) => `R = ${show(R)}`;
  const each = (f) => groups.flatMap(([R, rows]) => rows.map((r) => ({ series: name(R), x: r.n, ...f(r) })));
  return {
    title: "Worst error on the ball against the number of tokens",
    caption:
      "Mean over replicates, bands of two standard errors. The papers promise C(R)/√n; where the softmax is carried by few tokens the fall is slower.",
    table: "rows",
    x: { title: "n, tokens", log: true },
    y: { title: "sup error", log: true },
    series: groups.map(([R], i) => ({ name: name(R), colour: i })),
    layers: [
      {
        kind: "band",
        name: "two standard errors",
        rows: each((r) => ({ lo: r.sup_error - Z * r.sup_error_se, hi: r.sup_error + Z * r.sup_error_se })),
      },
      { kind: "line", name: "measured, joined", width: 1.2, rows: each((r) => ({ y: r.sup_error })) },
      {
        kind: "points",
        name: "measured",
        rows: each((r) => ({
          y: r.sup_error,
          tip: [
            ["n", show(r.n)],
            ["sup error", show(r.sup_error, r.sup_error_se)],
            ...(r.flag ? [["flag", r.flag]] : []),
          ],
        })),
      },
    ],
  };
}

export function ball(run) {
  return run.tables.rows?.length ? [growthFigure(run), fallFigure(run)] : [];
}
