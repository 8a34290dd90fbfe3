/* SPDX-License-Identifier: Apache-2.0 */
// tails.js : how heavy the tails of tokens are, against Gaussian tokens, layer by layer.
import { groupBy, highest, isNumber, show } from "../tables.js";

const kinds = [
  { kind: "principal", name: "principal components", colour: 0 },
  { kind: "random", name: "random directions", colour: 7 },
  { kind: "norm", name: "norms", colour: 2 },
  { kind: "key", name: "heads' key directions", colour: 1 },
  { kind: "score", name: "scores", colour: 3 },
];

const measures = [
  {
    key: "proxy",
    title: "Sub-Gaussian variance proxy",
    caption: "What the log moment generating function asks for, over the variance, which is the least it can be.",
  },
  { key: "psi2", title: "ψ₂ norm", caption: "Over the standard deviation. Large: some tokens lie far out." },
  { key: "hill", title: "Hill's tail index ξ", caption: "Of the n^⅔ largest. Large and stable: a power tail." },
];

// Where a row stands: its layer, kinds side by side; or its kind, where there are no layers.
function placing(rows) {
  const here = kinds.filter(({ kind }) => rows.some((r) => r.kind === kind));
  const layered = rows.some((r) => isNumber(r.layer));
  const counts = new Map(); // of a kind in a layer, so that its directions stand side by side
  const spread = (r) => {
    const key = `${r.layer} ${r.kind}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
    return ((counts.get(key) * 0.618) % 1) - 0.5;
  };
  const slot = (r) => here.findIndex(({ kind }) => kind === r.kind);
  const at = layered
    ? (r) => r.layer + 0.84 * ((slot(r) + 0.5 + 0.7 * spread(r)) / here.length - 0.5)
    : (r) => slot(r) + 1 + 0.4 * spread(r);
  const last = layered ? highest(rows.map((r) => r.layer)) + 0.5 : here.length + 0.5;
  const low = layered ? -0.5 : 0.5;
  return {
    here,
    at,
    ends: [low, last],
    x: layered ? { title: "layer", column: "layer" } : { title: "kind", names: here.map(({ name }) => name) },
  };
}

function tailFigure(given, domain, { key, title, caption }) {
  const rows = given.filter((r) => isNumber(r[key]) && r[`${key}_control`] > 0);
  if (!rows.length) return [];
  const { here, at, ends, x } = placing(rows);
  const control = rows.find((r) => r.kind !== "norm") ?? rows[0];
  const width = (2 * control[`${key}_control_sd`]) / control[`${key}_control`];
  const gaussian = { name: "Gaussian tokens, ± 2 sd", colour: 6 };
  return [
    {
      title: `${title} against Gaussian tokens${domain === undefined ? "" : `: ${domain}`}`,
      caption: `${caption} Each mark is a direction, over the mean of its control: Gaussian samples of the same size.`,
      table: "rows",
      x: { ...x, domain: ends, nice: false },
      y: { title: "over Gaussian", log: true },
      series: [...here, gaussian],
      layers: [
        {
          kind: "band",
          name: "control",
          rows: ends.map((e) => ({ series: gaussian.name, x: e, lo: 1 - width, hi: 1 + width })),
        },
        {
          kind: "line",
          name: "Gaussian",
          plain: true,
          width: 1,
          dash: [4, 3],
          rows: ends.map((e) => ({ x: e, y: 1 })),
        },
        {
          kind: "points",
          name: "directions",
          size: 26,
          rows: rows.map((r) => ({
            series: here.find(({ kind }) => kind === r.kind)?.name,
            x: at(r),
            of: Object.fromEntries(["layer", "head", "index"].filter((c) => isNumber(r[c])).map((c) => [c, r[c]])),
            y: r[key] / r[`${key}_control`],
            tip: [
              ...(isNumber(r.layer) ? [["layer", show(r.layer)]] : []),
              ...(isNumber(r.head) ? [["head", show(r.head)]] : []),
              ["direction", show(r.index)],
              [key, show(r[key], r[`${key}_se`])],
              ["Gaussian", `${show(r[`${key}_control`], r[`${key}_control_sd`])}`],
              ["z", show(Number(r[`${key}_z`]?.toPrecision(3)))],
              ["verdict", r.verdict],
            ],
          })),
        },
      ],
    },
  ];
}

export function tails({ tables: { rows = [] } }) {
  return groupBy(rows, "domain").flatMap(([domain, of]) => measures.flatMap((m) => tailFigure(of, domain, m)));
}
