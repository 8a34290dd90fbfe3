/* SPDX-License-Identifier: Apache-2.0 */
// heat-flow.js : attention over keys on the sphere as a step of backward heat flow (esscher heat).
import { curves } from "./curves.js";
import { groupBy, isNumber, lowest, show } from "../tables.js";

function errorFigure(rows) {
  const good = rows.filter((r) => r.error > 0 && r.beta > 0);
  if (good.length < 2) return [];
  const last = good.at(-1);
  const tip = (r) => [
    ["β", show(r.beta)],
    ["error", show(r.error)],
    ["exponent since the last", show(r.rate)],
  ];
  return [
    {
      title: "How fast the drift becomes the gradient",
      caption:
        "Root mean square over the queries of β · drift − ∇ log f, infinitely many keys. It is what " +
        "smoothing the density over a width 1/√β changes; dashed: 1/β.",
      table: "rows",
      x: { title: "β, inverse temperature", log: true },
      y: { title: "|β drift − ∇ log f|", log: true },
      series: [
        { name: "exact", colour: 0 },
        { name: "1/β", colour: 7, dash: [6, 4] },
      ],
      layers: [
        {
          kind: "line",
          name: "1/β",
          dash: [6, 4],
          width: 1.3,
          rows: good.map((r) => ({ series: "1/β", x: r.beta, y: (last.error * last.beta) / r.beta })),
        },
        { kind: "line", name: "exact", rows: good.map((r) => ({ series: "exact", x: r.beta, y: r.error })) },
        {
          kind: "points",
          name: "exact",
          rows: good.map((r) => ({ series: "exact", x: r.beta, y: r.error, tip: tip(r) })),
        },
      ],
    },
  ];
}

// The first step, the last, and three between.
function shown(steps) {
  const last = steps.length - 1;
  return new Set([0, 1, Math.round(last / 4), Math.round(last / 2), last].map((i) => steps[i]));
}

const position = (circle) => ({
  title: circle ? "angle" : "cosine with the first axis",
  domain: circle ? [-Math.PI, Math.PI] : [-1, 1],
  nice: false,
});

function densityFigures(particles, circle) {
  const steps = groupBy(particles ?? [], "step");
  if (steps.length < 2) return [];
  const chosen = shown(steps.map(([step]) => step));
  const name = (step) => `step ${show(step)}`;
  const middle = (r) => (r.low + r.high) / 2;
  const tip = (r) => [
    ["step", show(r.step)],
    ["from", show(r.low)],
    ["to", show(r.high)],
    ["density", show(r.density)],
  ];
  const lines = steps.filter(([step]) => chosen.has(step));
  const of = lines.flatMap(([step, rows]) =>
    rows.map((r) => ({ series: name(step), x: middle(r), y: r.density, tip: tip(r) })),
  );
  const axis = position(circle);
  const least = lowest(particles.map((r) => r.density).filter((v) => v > 0));
  return [
    {
      title: "Tokens that move by their own attention: density after some steps",
      caption:
        "Relative to the uniform law, by bin. A step is the heat equation run backwards for the time 1/β: " +
        "hills grow, until tokens are points." +
        (lines.length < steps.length
          ? ` Of ${steps.length} steps ${lines.length} are here; the others are in "The same, every step".`
          : ""),
      table: "particles",
      x: axis,
      y: { title: "density", zero: true },
      series: lines.map(([step], i) => ({ name: name(step), colour: i })),
      layers: [
        { kind: "line", name: "density", rows: of },
        { kind: "points", name: "density", size: 18, rows: of },
      ],
    },
    {
      title: "The same, every step",
      caption: "Density by colour, on a logarithmic scale; empty bins have its lowest colour.",
      table: "particles",
      height: Math.min(460, 150 + 10 * steps.length),
      x: axis,
      y: { title: "step", domain: [steps[0][0] - 0.5, steps.at(-1)[0] + 0.5], nice: false },
      series: [],
      layers: [
        {
          kind: "tiles",
          name: "density",
          title: "density, relative to the uniform law",
          log: true,
          rows: particles.map((r) => ({
            x: r.low,
            x2: r.high,
            y: r.step - 0.5,
            y2: r.step + 0.5,
            value: Math.max(r.density, least),
            density: r.density,
            tip: tip(r),
          })),
        },
      ],
    },
  ];
}

// What the flow comes to, and why a token's neighbours become its copies.
function clusterFigures(steps) {
  return curves({
    rows: (steps ?? []).filter((r) => isNumber(r.clusters)),
    table: "steps",
    title: "Clusters",
    caption:
      "How many tokens can be chosen that are farther apart than the cluster angle, mean over sets. A cloud " +
      "breaks into clusters, and clusters merge, the later the farther apart they are.",
    x: { key: "time", title: "t, time of backward heat" },
    y: { title: "clusters", log: true },
    name: () => "clusters",
    measured: "clusters",
  }).map((figure) => ({ ...figure, open: true }));
}

export function heatFlow({ answer, tables: { rows, particles, steps } }) {
  const circle = Number(answer?.dim ?? 2) === 2;
  const finite = (rows ?? []).some((r) => isNumber(r.slope_finite)); // runs of older programs have none
  const gradient = [
    ...curves({
      rows,
      table: "rows",
      title: "Drift of a query against the gradient of the log-density",
      caption:
        "Slope of β times the drift on ∇ log f over the queries; it tends to 1 as the inverse temperature " +
        "grows. The law is that of " +
        (finite
          ? "n keys on average, exactly: where few of them share the weight it is above that of infinitely many."
          : "infinitely many keys: the gradient of the smoothed density."),
      x: { key: "beta", title: "β, inverse temperature", log: true },
      y: { title: "slope" },
      name: () => "slope",
      measured: "slope",
      law: finite ? "slope_finite" : "slope_exact",
    }),
  ];
  return [
    ...gradient.map((figure) => ({ ...figure, open: true })),
    ...clusterFigures(steps),
    ...errorFigure((rows ?? []).filter((r) => isNumber(r.error))),
    ...densityFigures(particles, circle),
    ...curves({
      rows: steps,
      table: "steps",
      title: "Length of the mean of all tokens",
      caption:
        "While the density is smooth backward heat makes the mean grow like exp((d−1) t), t = step/β; it " +
        "ends when tokens have gathered.",
      x: { key: "time", title: "t, time of backward heat" },
      y: { title: "|mean|", log: true },
      name: () => "|mean|",
      measured: "mean_length",
      law: "heat",
    }),
  ];
}
