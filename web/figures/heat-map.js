/* SPDX-License-Identifier: Apache-2.0 */
// heat-map.js : a table with two coordinates and a value, as a heat map; shared by commands that have one.
import { isNumber, show } from "../tables.js";

// A number with its sign: "> 4096" is a lower bound; "any" stands for itself.
const signed = (sign, text) => (sign === "any" ? sign : sign ? `${sign} ${text}` : text);

// A number that fits a cell: two digits, or a whole number.
const short = (v) => (isNumber(v) ? show(v < 10 ? Number(v.toPrecision(2)) : Math.round(v)) : "");

const isWord = (v) => typeof v === "string" && v !== "";

// x, y, value: {key, title}; pick: from a row to {at, pick}, its place and what a click on its cell picks.
// domain: where colours begin and end. Nothing is drawn where one of them is not in the table.
// value.sign: the column that says of which numbers the value is a bound only (">"), and where any will do ("any").
// value.letter: instead, a column of letters to stand in the cells. `more` may be words. value.log: colours by logarithm.
// value.classes: colours by the class in a row's column value.of instead, the value standing in the cell.
export function heatMap({ rows, table, title, caption, x, y, value, domain, more = [], pick }) {
  if (!rows?.some((r) => isNumber(r[value.key]) && r[x.key] !== undefined && r[y.key] !== undefined)) return [];
  const sign = (r, of) => (of.sign && r[of.sign]) || "";
  const marked = rows.some((r) => sign(r, value));
  const ordered = (key) => [...new Set(rows.map((r) => r[key]))].sort((a, b) => a - b);
  return [
    {
      title,
      caption,
      table,
      height: Math.max(170, 110 + 26 * ordered(y.key).length),
      x: { title: x.title, column: x.key, sort: ordered(x.key) },
      y: { title: y.title, column: y.key, sort: ordered(y.key).reverse() },
      series: [],
      layers: [
        {
          kind: "cells",
          name: value.title,
          title: value.title,
          domain,
          log: value.log && rows.every((r) => !(r[value.key] <= 0)),
          ...(value.classes ? { classes: value.classes } : {}),
          rows: rows.map((r) => ({
            x: r[x.key],
            y: r[y.key],
            value: r[value.key],
            ...(marked ? { sign: sign(r, value) } : {}),
            ...(value.letter ? { sign: r[value.letter] } : {}),
            ...(value.classes ? { class: r[value.of], sign: short(r[value.key]) } : {}),
            ...(pick ? pick(r) : {}),
            tip: [
              [x.title, show(r[x.key])],
              [y.title, show(r[y.key])],
              [value.title, signed(sign(r, value), show(r[value.key], r[`${value.key}_se`]))],
              ...more
                .filter((m) => isNumber(r[m.key]) || isWord(r[m.key]) || sign(r, m))
                .map((m) => [m.title, isWord(r[m.key]) ? r[m.key] : signed(sign(r, m), show(r[m.key]))]),
            ],
          })),
        },
      ],
    },
  ];
}
