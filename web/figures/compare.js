/* SPDX-License-Identifier: Apache-2.0 */
// compare.js : two runs side by side: one mark for each figure that both have, and how many errors apart they are.
import { highest, isNumber, lowest, show } from "../tables.js";

const kinds = [
  { name: "differs", colour: 1 },
  { name: "agrees within errors", colour: 2 },
];
const kindOf = (r) => kinds[r.differs ? 0 : 1].name;
const tipOf = (r) => [
  ["quantity", r.quantity],
  ["where", r.at],
  ["first", show(r.first, r.first_se)],
  ["second", show(r.second, r.second_se)],
  ["t", show(r.t)],
  ["p, corrected", show(r.p)],
];

function sideBySide(rows) {
  const log = rows.every((r) => r.first > 0 && r.second > 0);
  const all = rows.flatMap((r) => [r.first, r.second]);
  const ends = [lowest(all), highest(all)];
  return {
    title: "Second run against first",
    caption: "One mark for each number with a standard error in both runs; on the line they are equal.",
    table: "differences",
    x: { title: "first run", log },
    y: { title: "second run", log },
    series: kinds.filter((k) => rows.some((r) => kindOf(r) === k.name)),
    layers: [
      {
        kind: "line",
        name: "equal",
        plain: true,
        dash: [3, 3],
        rows: ends.map((v, k) => ({ part: "equal", x: v, y: v, k })),
      },
      {
        kind: "points",
        name: "figures",
        rows: rows.map((r) => ({ series: kindOf(r), x: r.first, y: r.second, tip: tipOf(r) })),
      },
    ],
  };
}

// By quantity, so that one sees which kind of figure moved.
function apart(rows) {
  const names = [...new Set(rows.map((r) => `${r.table}: ${r.quantity}`))].reverse();
  const edges = [0.5, names.length + 0.5];
  const at = (r) => names.indexOf(`${r.table}: ${r.quantity}`) + 1;
  return {
    title: "How many standard errors apart",
    caption: "One mark for each figure, in units of the error of the difference: second run less first.",
    table: "differences",
    height: 90 + 20 * names.length,
    x: { title: "t" },
    y: { title: null, names, domain: edges, nice: false },
    series: kinds.filter((k) => rows.some((r) => kindOf(r) === k.name)),
    layers: [
      {
        kind: "line",
        name: "equal",
        plain: true,
        dash: [3, 3],
        rows: edges.map((y, k) => ({ part: "equal", x: 0, y, k })),
      },
      { kind: "points", name: "figures", rows: rows.map((r) => ({ series: kindOf(r), x: r.t, y: at(r), tip: tipOf(r) })) },
    ],
  };
}

export function compare({ tables: { differences } }) {
  const rows = (differences ?? []).filter((r) => isNumber(r.t));
  return rows.length ? [apart(rows), sideBySide(rows)] : [];
}
