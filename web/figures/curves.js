/* SPDX-License-Identifier: Apache-2.0 */
// curves.js : a measured quantity with its law, one curve for each value of a key; shared by commands that have such.
import { groupBy, isNumber, show } from "../tables.js";

const Z = 2; // standard errors to either side

// x: {key, title, log, whole}; y: {title, log, zero}; measured, law: keys of numbers, either may be missing from the table;
// name: from a row to the name of its series; lawName: what the law is, where it is none. Nothing is drawn without a
// number of either kind.
export function curves({ rows, table, title, caption, x, y, name, measured, law, lawName = "law" }) {
  const has = (key) => key && rows?.some((r) => isNumber(r[key]) && isNumber(r[x.key]));
  if (!has(measured) && !has(law)) return [];
  const se = `${measured}_se`;
  const groups = groupBy(
    rows.map((r) => ({ ...r, series: name(r) })),
    "series",
  );
  const each = (f) => groups.flatMap(([series, of]) => of.map((r) => ({ series, x: r[x.key], ...f(r) })));
  const tip = (r) => [
    [x.title, show(r[x.key])],
    ...(has(measured) ? [[y.title, show(r[measured], r[se])]] : []),
    ...(has(law) ? [[lawName, show(r[law])]] : []),
  ];
  const errors = rows?.some((r) => isNumber(r[se]));
  const words = [
    has(measured) && `Points${errors ? " with two standard errors" : ""}: measured.`,
    has(law) && `Lines: ${lawName === "law" ? "the law" : lawName}.`,
  ]
    .filter(Boolean)
    .join(" ");
  return [
    {
      title,
      caption: `${caption} ${words}`,
      table,
      x: { title: x.title, log: x.log, whole: x.whole },
      y,
      series: groups.map(([series], i) => ({ name: series, colour: i })),
      layers: [
        ...(has(law) ? [{ kind: "line", name: lawName, rows: each((r) => ({ y: r[law], tip: tip(r) })) }] : []),
        ...(has(measured)
          ? [
              {
                kind: "bars",
                name: "two standard errors",
                rows: each((r) => ({ lo: r[measured] - Z * r[se], hi: r[measured] + Z * r[se] })),
              },
              { kind: "points", name: "measured", rows: each((r) => ({ y: r[measured], tip: tip(r) })) },
            ]
          : []),
      ],
    },
  ];
}
