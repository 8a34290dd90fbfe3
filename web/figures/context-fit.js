/* SPDX-License-Identifier: Apache-2.0 */
// context-fit.js : loss against context, its fitted curve, and what the curve says beyond.
import { extent, grid, isNumber, show } from "../tables.js";

const Z = 2; // standard errors to either side

// The curve itself where the run has its parameters, else through the fitted values.
function curveOf(fit, points, beyond) {
  const range = extent([...points, ...beyond].map((r) => r.context).filter((c) => c > 0));
  if (!fit || ![fit.A, fit.beta, fit.gamma].every(isNumber) || !range)
    return points.map((r) => ({ x: r.context, y: r.fitted }));
  return grid(range[0], range[1], 120, true).map((c) => ({ x: c, y: fit.A * c ** -fit.beta + fit.gamma }));
}

function lossFigure(fit, points, beyond) {
  const tip = (r) => [
    ["context", show(r.context)],
    ["loss", show(r.loss)],
    ["fitted", show(r.fitted)],
    ["weight", show(r.weight)],
  ];
  const ahead = (r) => [
    ["context", show(r.context)],
    ["loss", show(r.loss, r.loss_se)],
    ["times the longest given", show(r.beyond)],
  ];
  return {
    title: "Loss against context",
    caption:
      "Points: given; open where they lie off the curve and weigh less. Line: L(c) = (α/c)^β + γ, fitted robustly." +
      (beyond.length ? " With bars of two standard errors: predictions, to first order." : "") +
      (isNumber(fit?.gamma) ? " Dashed: γ, what no context removes." : ""),
    table: "points",
    x: { title: "context, tokens", log: true },
    y: { title: "loss" },
    series: [
      { name: "given", colour: 0 },
      { name: "fitted", colour: 7 },
      ...(beyond.length ? [{ name: "predicted", colour: 1 }] : []),
      ...(isNumber(fit?.gamma) ? [{ name: "γ", colour: 7, dash: [6, 4] }] : []),
    ],
    layers: [
      {
        kind: "line",
        name: "γ",
        dash: [6, 4],
        width: 1.2,
        rows: isNumber(fit?.gamma)
          ? extent([...points, ...beyond].map((r) => r.context)).map((x) => ({ series: "γ", x, y: fit.gamma }))
          : [],
      },
      { kind: "line", name: "fitted", rows: curveOf(fit, points, beyond).map((r) => ({ series: "fitted", ...r })) },
      {
        kind: "bars",
        name: "two standard errors",
        rows: beyond.map((r) => ({
          series: "predicted",
          x: r.context,
          lo: r.loss - Z * r.loss_se,
          hi: r.loss + Z * r.loss_se,
        })),
      },
      {
        kind: "points",
        name: "predicted",
        hollow: true,
        rows: beyond.map((r) => ({ series: "predicted", x: r.context, y: r.loss, tip: ahead(r) })),
      },
      {
        kind: "points",
        name: "given",
        rows: points
          .filter((r) => !(r.weight < 1))
          .map((r) => ({ series: "given", x: r.context, y: r.loss, tip: tip(r) })),
      },
      {
        kind: "points",
        name: "off the curve",
        hollow: true,
        rows: points
          .filter((r) => r.weight < 1)
          .map((r) => ({ series: "given", x: r.context, y: r.loss, tip: tip(r) })),
      },
    ],
  };
}

// On logarithmic axes the excess over γ is straight, and its scatter shows.
function excessFigure(fit, points) {
  if (![fit?.A, fit?.beta, fit?.gamma].every(isNumber)) return [];
  const line = curveOf(fit, points, []).map((r) => ({ series: "fitted", x: r.x, y: r.y - fit.gamma }));
  return [
    {
      title: "Excess loss over γ",
      caption:
        `A straight line of slope −β, β = ${show(fit.beta, fit.beta_se)}: ` +
        `doubling the context leaves ${(2 ** -fit.beta).toFixed(3)} of it.`,
      table: "points",
      x: { title: "context, tokens", log: true },
      y: { title: "L(c) − γ", log: true },
      series: [
        { name: "given", colour: 0 },
        { name: "fitted", colour: 7 },
      ],
      layers: [
        { kind: "line", name: "fitted", rows: line },
        {
          kind: "points",
          name: "given",
          rows: points.map((r) => ({
            series: "given",
            x: r.context,
            y: r.loss - fit.gamma,
            tip: [
              ["context", show(r.context)],
              ["excess", show(r.loss - fit.gamma)],
              ["weight", show(r.weight)],
            ],
          })),
        },
      ],
    },
  ];
}

export function contextFit({ tables: { points, predictions, fit } }) {
  if (!points?.length) return [];
  const beyond = (predictions ?? []).filter((r) => isNumber(r.loss_se));
  return [lossFigure(fit?.[0], points, beyond), ...excessFigure(fit?.[0], points)];
}
