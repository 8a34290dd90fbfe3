/* SPDX-License-Identifier: Apache-2.0 */
// contexts.js : what the order of the text costs: windows of consecutive tokens beside independent ones.
import { groupBy, highest, isNumber, lowest, show } from "../tables.js";
import { columnsOf, headName, headOf, pickOf } from "./heads.js";

const Z = 2; // standard errors to either side

// How many independent tokens have the error of a context of n, over all heads.
function worthFigure(contexts, several) {
  const rows = contexts.filter((r) => r.effective_tokens > 0);
  if (!rows.length) return [];
  const name = (r) => (several ? r.domain : "median over heads");
  const ends = [lowest(rows.map((r) => r.n)), highest(rows.map((r) => r.n))];
  const equal = { name: "as many as independent tokens", colour: 7, dash: [5, 4] };
  const each = (f) => rows.map((r) => ({ series: name(r), x: r.n, ...f(r) }));
  return [
    {
      title: "What a context is worth, in independent tokens",
      caption:
        "Independent tokens that give the mean square error of a context, n consecutive tokens of the text: median over heads, and a band that eight of ten heads are in. Below the dashed line neighbours repeat each other.",
      table: "contexts",
      x: { title: "n, tokens of the context", log: true },
      y: { title: "independent tokens", log: true },
      series: [...groupBy(rows, "domain").map(([, of], i) => ({ name: name(of[0]), colour: i })), equal],
      layers: [
        {
          kind: "line",
          name: equal.name,
          dash: equal.dash,
          width: 1.3,
          rows: ends.map((n) => ({ series: equal.name, x: n, y: n })),
        },
        {
          kind: "band",
          name: "eight of ten heads",
          rows: each((r) => ({ lo: r.effective_tokens_low, hi: r.effective_tokens_high })),
        },
        { kind: "line", name: "median, joined", width: 1.2, rows: each((r) => ({ y: r.effective_tokens })) },
        {
          kind: "points",
          name: "median",
          rows: each((r) => ({
            y: r.effective_tokens,
            tip: [
              ["n", show(r.n)],
              ["worth", `${show(Number(r.effective_tokens.toPrecision(3)))} tokens`],
              ["design effect", show(r.design_effect, r.design_effect_se)],
              ["heads above 1", show(r.above)],
              ["windows apart", show(r.windows)],
            ],
          })),
        },
      ],
    },
  ];
}

// Each head at the largest n that its pool can judge.
function effectFigure(heads, several) {
  const rows = heads.filter((r) => r.design_effect > 0);
  if (rows.length < 2) return [];
  const widest = highest(rows.map((r) => r.head), 1);
  const layers = highest(rows.map((r) => r.layer));
  const kinds = [
    { name: "at the largest n that the pool can judge", colour: 0, of: (r) => !r.flag },
    { name: "the pool is too small: the design effect is larger", colour: 1, of: (r) => Boolean(r.flag) },
  ].filter(({ of }) => rows.some(of));
  const each = (f) =>
    kinds.flatMap(({ name, of }) =>
      rows.filter(of).map((r) => ({ series: name, x: r.layer + 0.7 * (r.head / widest - 0.5), of: columnsOf(r, several), ...f(r) })),
    );
  return [
    {
      title: "Design effect of contexts, head by head",
      caption:
        "Mean square error of windows of the text over that of as many independent tokens, with two standard errors; heads side by side within their layer. 1: the order of the text costs nothing.",
      table: "context_heads",
      x: { title: "layer", column: "layer", domain: [-0.5, layers + 0.5], nice: false },
      y: { title: "design effect", log: true },
      series: kinds.map(({ name, colour }) => ({ name, colour })),
      layers: [
        {
          kind: "line",
          name: "independent",
          plain: true,
          dash: [4, 3],
          width: 1,
          rows: [-0.5, layers + 0.5].map((x) => ({ x, y: 1 })),
        },
        {
          kind: "bars",
          name: "two standard errors",
          rows: each((r) => ({
            lo: r.design_effect - Z * r.design_effect_se,
            hi: r.design_effect + Z * r.design_effect_se,
          })),
        },
        {
          kind: "points",
          name: "heads",
          rows: each((r) => ({
            y: r.design_effect,
            at: headOf(r),
            pick: pickOf(r, several),
            tip: [
              ["head", headName(r, several)],
              ["n", show(r.n)],
              ["design effect", show(r.design_effect, r.design_effect_se)],
              [
                "worth",
                isNumber(r.effective_tokens) ? `${show(Number(r.effective_tokens.toPrecision(3)))} tokens` : "–",
              ],
              ["growth with n", show(r.growth, r.growth_se)],
            ],
          })),
        },
      ],
    },
  ];
}

export function contextFigures({ contexts = [], context_heads: heads = [] }, several) {
  return [...worthFigure(contexts, several), ...effectFigure(heads, several)];
}
