/* SPDX-License-Identifier: Apache-2.0 */
// rope.js : how the score of two rotary-embedded vectors falls with their distance.
import { groupBy, highest, isNumber, lowest, show } from "../tables.js";

const nameOf = (r) => `base ${show(r.base)}${r.scale > 1 ? `, distances over ${show(r.scale)}` : ""}`;

function decay(rows, embeddings) {
  const named = rows.filter((r) => r.distance > 0).map((r) => ({ ...r, series: nameOf(r) }));
  const groups = groupBy(named, "series");
  if (!groups.length) return [];
  const low = lowest(named.map((r) => r.score));
  const tip = (r) => [
    ["distance", show(r.distance)],
    ["score", show(r.score)],
    ["many dimensions", show(r.continuum)],
  ];
  const reach = (embeddings ?? []).filter((e) => e.reach <= highest(named.map((r) => r.distance)));
  return [
    {
      title: "Score of all-ones query and key against their distance",
      caption:
        "√d at distance 0. Points: the sum over the head's pairs. Lines: its mean for many dimensions, √d " +
        "(Ci(D) − Ci(D/b))/ln b, which is zero at the reach, 0.62 times the base (open marks). The sum " +
        "swings around it by about 1, so that single scores are negative long before.",
      table: "rows",
      x: { title: "distance, tokens", log: true },
      y: { title: "score" },
      series: groups.map(([name], i) => ({ name, colour: i })),
      layers: [
        {
          kind: "line",
          name: "zero",
          plain: true,
          width: 1,
          rows: [named[0], named.at(-1)].map((r) => ({ x: r.distance, y: 0 })),
        },
        {
          kind: "points",
          name: "score",
          size: 22,
          rows: named.map((r) => ({ series: r.series, x: r.distance, y: r.score, tip: tip(r) })),
        },
        {
          kind: "line",
          name: "many dimensions",
          width: 2,
          rows: named.map((r) => ({
            series: r.series,
            x: r.distance,
            y: isNumber(r.continuum) && r.continuum >= low - 1 ? r.continuum : null,
          })),
        },
        {
          kind: "points",
          name: "reach",
          hollow: true,
          size: 90,
          shape: "diamond",
          rows: reach.map((e) => ({
            series: nameOf(e),
            x: e.reach,
            y: 0,
            tip: [
              ["reach", show(e.reach)],
              ["first negative", show(e.first_negative)],
              ["granularity", show(e.granularity)],
            ],
          })),
        },
      ],
    },
  ];
}

export function rope({ tables: { rows, embeddings } }) {
  return decay(rows ?? [], embeddings);
}
