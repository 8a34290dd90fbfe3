// heat-map.js : a table with two coordinates and a value, as a heat map; shared by commands that have one.
import { isNumber, show } from "../tables.js";

// x, y, value: {key, title}; pick: from a row to {at, pick}, its place and what a click on its cell picks.
// domain: where colours begin and end. Nothing is drawn where a table lacks one of them.
export function heatMap({ rows, table, title, caption, x, y, value, domain, more = [], pick }) {
  if (!rows?.some((r) => isNumber(r[value.key]) && r[x.key] !== undefined && r[y.key] !== undefined)) return [];
  const ordered = (key) => [...new Set(rows.map((r) => r[key]))].sort((a, b) => a - b);
  return [
    {
      title,
      caption,
      table,
      height: Math.max(170, 110 + 26 * ordered(y.key).length),
      x: { title: x.title, sort: ordered(x.key) },
      y: { title: y.title, sort: ordered(y.key).reverse() },
      series: [],
      layers: [
        {
          kind: "cells",
          name: value.title,
          title: value.title,
          domain,
          rows: rows.map((r) => ({
            x: r[x.key],
            y: r[y.key],
            value: r[value.key],
            ...(pick ? pick(r) : {}),
            tip: [
              [x.title, show(r[x.key])],
              [y.title, show(r[y.key])],
              [value.title, show(r[value.key], r[`${value.key}_se`])],
              ...more.filter((m) => isNumber(r[m.key])).map((m) => [m.title, show(r[m.key])]),
            ],
          })),
        },
      ],
    },
  ];
}
