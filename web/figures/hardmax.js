/* SPDX-License-Identifier: Apache-2.0 */
// hardmax.js : the logarithmic law at infinite score scale.
import { isNumber, show } from "../tables.js";

const Z = 2; // standard errors to either side

// One dimension has an exact expectation of mean |G|; in several the root mean square has an asymptotic one.
const measured = (rows) =>
  rows.some((r) => isNumber(r.exact)) ? { key: "mean_abs", name: "mean |G|" } : { key: "rms", name: "rms |G|" };

const laws = [
  { key: "exact", name: "exact", colour: 2, dash: undefined },
  { key: "second_order", name: "second order", colour: 3, dash: [2, 3] },
  { key: "asymptotic", name: "leading term", colour: 1, dash: [6, 4] },
];

const tipOf = (r, m) => [
  ["n", show(r.n)],
  [m.name, show(r[m.key], r[`${m.key}_se`])],
  ...laws.filter((l) => isNumber(r[l.key])).map((l) => [l.name, show(r[l.key])]),
];

// Everything divided by `unit(row)`: 1 for the law itself, the exact value for how far the others are from it.
function lawFigure(rows, unit, title, caption, yTitle, zero) {
  const m = measured(rows);
  const present = laws.filter((l) => rows.some((r) => isNumber(r[l.key])));
  const good = rows.filter((r) => isNumber(unit(r)));
  const [value, se] = [(r) => r[m.key] / unit(r), (r) => r[`${m.key}_se`] / unit(r)];
  return {
    title,
    caption,
    table: "rows",
    x: { title: "n, tokens", log: true },
    y: { title: yTitle, zero },
    series: [
      { name: `measured ${m.name}`, colour: 0 },
      ...present.map(({ name, colour, dash }) => ({ name, colour, dash })),
    ],
    layers: [
      ...present.map((l) => ({
        kind: "line",
        name: l.name,
        dash: l.dash,
        rows: good.map((r) => ({ series: l.name, x: r.n, y: isNumber(r[l.key]) ? r[l.key] / unit(r) : null })),
      })),
      {
        kind: "bars",
        name: "two standard errors",
        rows: good.map((r) => ({
          series: `measured ${m.name}`,
          x: r.n,
          lo: value(r) - Z * se(r),
          hi: value(r) + Z * se(r),
        })),
      },
      {
        kind: "points",
        name: "measured",
        rows: good.map((r) => ({ series: `measured ${m.name}`, x: r.n, y: value(r), tip: tipOf(r, m) })),
      },
    ],
  };
}

// The law's own scale: sqrt(2 ln n), times the leading term's constant where the run has that term.
const flat = (r) => (isNumber(r.asymptotic) ? r.asymptotic : 1 / Math.sqrt(2 * Math.log(r.n)));

export function hardmax({ tables: { rows } }) {
  if (!rows?.length) return [];
  const scaled = lawFigure(
    rows.filter((r) => r.n > 1),
    flat,
    "Size of the mean output over its law",
    "Each output is the token that scores highest; their mean should vanish. It does so like σ ln 2 / √(2 ln n), no power of n: divided by that, it is flat but for corrections that fade like 1/ln n. Bars: two standard errors.",
    "|G| √(2 ln n) / (σ ln 2)",
    false,
  );
  const plain = lawFigure(
    rows,
    () => 1,
    "Size of the mean output against the number of tokens",
    "The same without the law's scale: a thousandfold more tokens barely halve it.",
    "|G|",
    true,
  );
  const figures = rows.some((r) => isNumber(r.asymptotic)) ? [scaled, plain] : [plain];
  if (rows.some((r) => isNumber(r.exact)))
    figures.push(
      lawFigure(
        rows,
        (r) => r.exact,
        "The same, divided by the exact expectation",
        "How far sampling and the two expansions are from the exact value. Bars: two standard errors.",
        "ratio to exact",
        false,
      ),
    );
  return figures;
}
