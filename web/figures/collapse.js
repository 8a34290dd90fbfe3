// collapse.js : do outputs merge? The phase diagram.
import { heatMap } from "./heat.js";

export function collapse({ tables: { rows } }) {
  return heatMap({
    rows, table: "rows", title: "Angle between outputs over angle between tokens",
    caption: "0: tokens collapse to one; 1: each sees itself. The border is where the score scale γ ln n passes 1/(1 − ρ).",
    x: { key: "gamma", title: "γ" }, y: { key: "rho", title: "ρ, cosine between tokens" },
    value: { key: "angle_ratio", title: "angle ratio" }, domain: [0, 1],
    more: [{ key: "self_weight", title: "own weight" }, { key: "n", title: "n" }],
  });
}
