// regimes.js : weights of keys on the sphere across the critical inverse temperature.
import { curves } from "./curves.js";
import { show } from "../tables.js";

const weights = [
  { key: "top_weight", title: "Largest weight", unit: "largest weight" },
  { key: "inverse_ess", title: "Concentration of the weights", unit: "Σ w²" },
];

export function regimes({ tables: { rows } }) {
  return weights.flatMap(({ key, title, unit }) =>
    curves({
      rows, table: "rows", title,
      caption: "Over b = β n^(−2/(d−1)), the inverse temperature in units of its critical scale.",
      x: { key: "b", title: "b", log: true }, y: { title: unit, zero: true },
      name: (r) => `n = ${show(r.n)}`, measured: key, law: `${key}_law`,
    }),
  );
}
