/* SPDX-License-Identifier: Apache-2.0 */
// exponent.js : the local exponent of keys, and the inverse temperature at which one of them has the weight.
import { isNumber, show } from "../tables.js";

const Z = 2; // standard errors to either side

function scanFigure(scan) {
  const kinds = [
    { key: "alpha", name: "corrected for curvature", colour: 0 },
    { key: "hill", name: "Hill", colour: 1 },
  ];
  const good = (scan ?? []).filter((r) => isNumber(r.alpha));
  if (good.length < 2) return [];
  return [
    {
      title: "Does the exponent depend on how many neighbours are used?",
      caption:
        "α of P(1 − cosine ≤ t) ∼ c tᵅ, from the k nearest keys of each query, with two standard errors. Where " +
        "it keeps changing with k there is no exponent: the keys have structure at every distance.",
      table: "scan",
      x: { title: "k, nearest keys", log: true },
      y: { title: "α" },
      series: kinds.map(({ name, colour }) => ({ name, colour })),
      layers: kinds.flatMap(({ key, name }) => {
        const se = (r) => r[`${key}_se`];
        const rows = good.map((r) => ({
          series: name,
          x: r.k,
          y: r[key],
          tip: [
            ["k", show(r.k)],
            ["α", show(r[key], se(r))],
            ["dimension", show(2 * r[key], 2 * se(r))],
          ],
        }));
        return [
          { kind: "line", name, width: 1.2, rows },
          {
            kind: "bars",
            name: "two standard errors",
            rows: good.map((r) => ({ series: name, x: r.k, lo: r[key] - Z * se(r), hi: r[key] + Z * se(r) })),
          },
          { kind: "points", name, rows },
        ];
      }),
    },
  ];
}

function freezingFigure(freezing, beta) {
  const good = (freezing ?? []).filter((r) => isNumber(r.averages) && isNumber(r.frozen));
  const law = good.filter((r) => r.source !== "these keys");
  const measured = good.filter((r) => r.source === "these keys");
  if (law.length < 2) return [];
  const kinds = [
    { key: "frozen", name: "single-key from here: fewer than 2 keys share the weight", colour: 1 },
    { key: "averages", name: "averaging below: 100 keys or more do", colour: 0 },
  ];
  const tip = (r) => [
    ["n", show(r.n)],
    ["from", r.source],
    ["averaging below β", show(r.averages)],
    ["single-key from β", show(r.frozen)],
    ...(r.verdict ? [["at its β", r.verdict]] : []),
    ...(isNumber(r.ess) ? [["ESS", show(r.ess)]] : []),
  ];
  return [
    {
      title: "Averaging, selective, single-key heads over such keys",
      caption:
        "Inverse temperatures against the context. Points: solved on attention over the keys at hand. Lines: the exact " +
        "expectation for n keys of the same local exponent and density; bands: two standard errors. " +
        (isNumber(beta)
          ? "Dashed: where this head runs. Between the lines it is selective."
          : "Between the lines attention is selective."),
      table: "freezing",
      x: { title: "n, tokens", log: true },
      y: { title: "β, inverse temperature", log: true },
      series: [
        ...kinds.map(({ name, colour }) => ({ name, colour })),
        ...(isNumber(beta) ? [{ name: "this head", colour: 7, dash: [6, 4] }] : []),
      ],
      layers: [
        ...kinds.flatMap(({ key, name }) => {
          const at = (r) => ({ series: name, x: r.n, y: r[key], tip: tip(r) });
          const width = (r) => Math.exp((Z * (isNumber(r[`${key}_se`]) ? r[`${key}_se`] : 0)) / r[key]);
          return [
            {
              kind: "band",
              name: "two standard errors",
              rows: law.map((r) => ({ series: name, x: r.n, lo: r[key] / width(r), hi: r[key] * width(r) })),
            },
            { kind: "line", name, rows: law.map(at) },
            { kind: "points", name, rows: measured.map(at) },
          ];
        }),
        {
          kind: "line",
          name: "this head",
          dash: [6, 4],
          rows: isNumber(beta) ? [law[0], law.at(-1)].map((r) => ({ series: "this head", x: r.n, y: beta })) : [],
        },
      ],
    },
  ];
}

export function exponent({ tables: { scan, freezing, runs } }) {
  return [...freezingFigure(freezing, runs?.[0]?.beta), ...scanFigure(scan)];
}
