// collapse.js : do outputs merge? Across the threshold, and the phase diagram.
import { curves } from "./curves.js";
import { heatMap } from "./heat-map.js";
import { show } from "../tables.js";

export function collapse({ tables: { rows } }) {
  const largest = Math.max(...(rows ?? []).map((r) => r.n ?? 0));
  const diagram = rows?.filter((r) => (r.n ?? 0) === largest) ?? [];
  return [
    ...curves({
      rows, table: "rows", title: "Angle between outputs over angle between tokens",
      caption: "0: tokens collapse to one; 1: each sees itself.",
      x: { key: "times", title: "γ/γ_c" }, y: { title: "angle ratio", zero: true },
      name: (r) => `n = ${show(r.n)}, ρ = ${show(r.rho)}`, measured: "angle_ratio_measured", law: "angle_ratio",
    }),
    ...(new Set(diagram.map((r) => r.rho)).size > 2
      ? heatMap({
          rows: diagram, table: "rows", title: `Phase diagram${largest ? ` at n = ${show(largest)}` : ""}`,
          caption: "Angle ratio over score scale γ = β/ln n and cosine ρ of the tokens; the border is where γ passes 1/(1 − ρ).",
          x: { key: "gamma", title: "γ" }, y: { key: "rho", title: "ρ, cosine between tokens" },
          value: { key: "angle_ratio", title: "angle ratio" }, domain: [0, 1], more: [{ key: "self_weight", title: "own weight" }],
        })
      : []),
  ];
}
