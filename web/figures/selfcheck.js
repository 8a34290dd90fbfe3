/* SPDX-License-Identifier: Apache-2.0 */
// selfcheck.js : how often intervals of 95 % held the truth.
import { isNumber, lowest, show } from "../tables.js";

const NOMINAL = 0.95;

export function selfcheck({ tables: { checks } }) {
  const rows = (checks ?? []).filter((r) => ["interval", "error", "bound"].includes(r.kind) && isNumber(r.found));
  if (rows.length < 2) return [];
  const names = rows.map((r) => `${r.setting}: ${r.figure}`).reverse(); // the first on top
  const edges = [0.5, names.length + 0.5];
  const at = (i) => names.length - i;
  const least = lowest(rows.map((r) => r.found - 2 * r.found_se), 0.88);
  return [
    {
      title: "How often intervals of 95 % held the truth",
      caption:
        "One mark for each kind of interval, over many seeds; bars are two standard errors. What is off by more than four of them and two points of a hundred is called off.",
      table: "checks",
      height: 90 + 20 * names.length,
      x: { title: "share of seeds", domain: [Math.floor(20 * least) / 20, 1], nice: false },
      y: { title: null, names, domain: edges, nice: false },
      series: [
        { name: "within", colour: 2 },
        { name: "off", colour: 1 },
      ].filter((s) => rows.some((r) => r.within === s.name)),
      layers: [
        {
          kind: "line",
          name: "as it should be",
          plain: true,
          dash: [3, 3],
          width: 1,
          rows: edges.map((y, k) => ({ part: "nominal", x: NOMINAL, y, k })),
        },
        {
          kind: "line",
          name: "two standard errors",
          plain: true,
          width: 2,
          rows: rows.flatMap((r, i) =>
            [-2, 2].map((s, k) => ({ part: names[i], x: Math.min(1, r.found + s * r.found_se), y: at(i), k })),
          ),
        },
        {
          kind: "points",
          name: "found",
          size: 60,
          rows: rows.map((r, i) => ({
            series: r.within,
            x: r.found,
            y: at(i),
            tip: [
              ["setting", r.setting],
              ["figure", r.figure],
              ["seeds", show(r.seeds)],
              ["held the truth", show(r.found, r.found_se)],
            ],
          })),
        },
      ],
    },
  ];
}
