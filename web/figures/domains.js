/* SPDX-License-Identifier: Apache-2.0 */
// domains.js : where a model's heads behave differently on another kind of text.
import { groupBy, highest, isNumber, show } from "../tables.js";
import { columnsOf, headOf } from "./heads.js";

const Z = 2; // standard errors to either side
const series = [
  { name: "differs", colour: 1 },
  { name: "within noise", colour: 7 },
];

const titles = { tokens: "tokens for a tenth", "score sd": "score sd" };

// By quantity; runs of before it had a name compared the errors of draws.
const captions = {
  tokens:
    "Tokens for outputs within a tenth of their spread, by the form for large n. Intervals are from leaving out one of 16 sections of either text after the other.",
  "score sd":
    "Standard deviation of a query's scores. Intervals are from leaving out one of 16 sections of either text after the other.",
  errors: "Relative errors of single outputs at the largest n; intervals are those of the draws.",
};

// One figure for each domain that was compared with the first, and each quantity.
export function domainFigures(differences) {
  const known = differences
    .filter((r) => isNumber(r.ratio))
    .map((r) => ({ ...r, what: `${titles[r.quantity] ?? "errors"} on ${r.domain}` }));
  return groupBy(known, "what").map(([what, rows]) => {
    const { domain, quantity } = rows[0];
    const against = rows[0].against;
    const widest = highest(rows.map((r) => r.head), 1);
    const layers = highest(rows.map((r) => r.layer));
    const each = (f) =>
      rows.map((r) => ({
        series: series[r.differs === "yes" ? 0 : 1].name,
        x: r.layer + 0.7 * (r.head / widest - 0.5),
        of: columnsOf(r),
        ...f(r),
      }));
    return {
      title: `Ratio of ${what} to those on ${against}`,
      caption: `${captions[quantity] ?? captions.errors} One mark for each head, heads side by side within their layer, with 95 % intervals. Differs: p at most 0.01 for all heads together.`,
      table: "differences",
      x: { title: "layer", column: "layer", domain: [-0.5, layers + 0.5], nice: false },
      y: { title: `${domain} / ${against}`, log: true },
      series: series.filter(({ name }, i) => rows.some((r) => (r.differs === "yes") === (i === 0))),
      layers: [
        {
          kind: "line",
          name: "alike",
          plain: true,
          dash: [4, 3],
          width: 1,
          rows: [-0.5, layers + 0.5].map((x) => ({ x, y: 1 })),
        },
        {
          kind: "bars",
          name: "95 % interval",
          rows: each((r) => ({
            lo: r["ratio_ci.0"] ?? r.ratio - Z * r.ratio_se,
            hi: r["ratio_ci.1"] ?? r.ratio + Z * r.ratio_se,
          })),
        },
        {
          kind: "points",
          name: "heads",
          rows: each((r) => ({
            y: r.ratio,
            at: headOf(r),
            pick: headOf(r),
            tip: [
              ["head", `layer ${r.layer}, head ${r.head}`],
              ["ratio", show(r.ratio, r.ratio_se)],
              ["p", show(r.p)],
            ],
          })),
        },
      ],
    };
  });
}
