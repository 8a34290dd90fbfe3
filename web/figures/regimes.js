// regimes.js : weights of keys on the sphere across the critical inverse temperature.
import { groupBy, isNumber, show } from "../tables.js";

const Z = 1.96;

function weightFigure(rows, key, title, yTitle) {
  const groups = groupBy(rows, "n");
  const name = (n) => `n = ${show(n)}`;
  const each = (f) => groups.flatMap(([n, of]) => of.map((r) => ({ series: name(n), x: r.b, ...f(r) })));
  const interval = (r) => ({ lo: r[key] - Z * r[`${key}_se`], hi: r[key] + Z * r[`${key}_se`] });
  return {
    title,
    caption: "Over b = β n^(−2/(d−1)), the inverse temperature in units of its critical scale. Points with 95 % intervals: measured. Lines: the law.",
    table: "rows",
    x: { title: "b", log: true },
    y: { title: yTitle, zero: true },
    series: groups.map(([n], i) => ({ name: name(n), colour: i })),
    layers: [
      { kind: "line", name: "law", rows: each((r) => ({ y: r[`${key}_law`] })) },
      { kind: "bars", name: "95 % interval", rows: each(interval) },
      { kind: "points", name: "measured", rows: each((r) => ({ y: r[key], tip: [["b", show(r.b)], [yTitle, show(r[key], r[`${key}_se`])], ["law", show(r[`${key}_law`])], ["regime", String(r.regime ?? "–")]] })) },
    ],
  };
}

export function regimes({ tables: { rows } }) {
  const has = (key) => rows?.some((r) => isNumber(r[key]) && isNumber(r.b));
  return [
    ...(has("top_weight") ? [weightFigure(rows, "top_weight", "Largest weight", "largest weight")] : []),
    ...(has("inverse_ess") ? [weightFigure(rows, "inverse_ess", "Concentration of the weights", "Σ w²")] : []),
  ];
}
