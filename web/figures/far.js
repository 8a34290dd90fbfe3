/* SPDX-License-Identifier: Apache-2.0 */
// far.js : far keys of a causal model's heads: what replacing them by independent draws changes, and where the weight of
// the head that is picked is as contexts grow, with the forecast.
import { groupBy, isNumber, show } from "../tables.js";
import { classesOf } from "./classes.js";
import { heatMap } from "./heat-map.js";
import { columnsOf, headName, headOf, pickOf } from "./heads.js";

const Z = 2; // standard errors to either side

// ---- maps ----

const quantities = [
  {
    key: "relative_error_exact",
    title: "error against the limit",
    log: true,
    caption: "Of outputs at the largest n against those over infinitely many far keys, over their spread, exactly.",
  },
  { key: "far_mass", title: "weight on far keys", caption: "At the largest n.", domain: [0, 1] },
  {
    key: "tokens_for_tenth",
    title: "tokens for 10 %",
    sign: "tokens_for_tenth_sign",
    log: true,
    caption: "The number of keys from which on outputs are within a tenth of their spread of the limit; >: at least.",
  },
  {
    key: "effective_context",
    title: "effective context",
    log: true,
    caption: "The window that, with the first keys, gives outputs within the relative error, at the largest n.",
  },
];

function farMaps(heads, several) {
  const options = groupBy(heads, "domain").flatMap(([domain, rows]) =>
    [...classesOf(rows, "class", "ess_n"), ...quantities]
      .filter(({ key }) => new Set(rows.map((r) => r[key]).filter(isNumber)).size > 1)
      .map((value) => {
        const name = `${value.title}${several ? `: ${domain}` : ""}`;
        const figure = () =>
          heatMap({
            rows,
            table: "far_heads",
            title: `Heads by ${name}`,
            caption: `${value.caption} Press a cell for where its weight is.`,
            x: { key: "head", title: "head" },
            y: { key: "layer", title: "layer" },
            value,
            domain: value.domain,
            more: quantities.filter(({ key }) => key !== value.key),
            pick: (r) => ({ at: headOf(r), pick: pickOf(r, several) }),
          })[0];
        return { name, figure };
      }),
  );
  return options.length ? [{ open: true, label: "Colour:", options }] : [];
}

// ---- exchangeability ----

const changes = [
  { key: "entropy", title: "change of entropy, nats" },
  { key: "far_mass", title: "change of the weight on far keys" },
  { key: "output", title: "excess of outputs' mean square distance" },
];

function changeFigure({ key, title }, rows, several) {
  const sources = [...new Set(rows.map((r) => r.keys))];
  const widest = Math.max(...rows.map((r) => r.head)) + 1;
  const at = (r) => ({
    series: r.keys,
    x: r.layer + 0.7 * ((r.head + 0.4 * sources.indexOf(r.keys)) / widest - 0.5),
    of: columnsOf(r, several),
    y: r[key],
    lo: r[key] - Z * r[`${key}_se`],
    hi: r[key] + Z * r[`${key}_se`],
    at: headOf(r),
    pick: pickOf(r, several),
    tip: [
      ["head", headName(r, several)],
      ["change", show(r[key], r[`${key}_se`])],
      ["p", show(r.p)],
    ],
  });
  return {
    title: `Far keys replaced by independent draws: ${title}`,
    caption:
      "One dot for each head, side by side in its layer: with far keys drawn from other blocks, or another text, less as it is. Bars are two standard errors.",
    table: "exchangeability",
    x: { title: "layer", whole: true },
    y: { title },
    series: sources.map((name, colour) => ({ name, colour })),
    layers: [
      { kind: "bars", name: "two standard errors", rows: rows.filter((r) => isNumber(r[`${key}_se`])).map(at) },
      { kind: "points", name: "heads", rows: rows.map(at) },
    ],
  };
}

// ---- where the weight is ----

const shares = [
  { key: "sink_mass", name: "first keys" },
  { key: "local_mass", name: "last keys" },
  { key: "far_mass", name: "far keys" },
];

// From the bottom up: a share lies on those before it. Rounding must not take the sum above 1.
const below = (r, i) => shares.slice(0, i).reduce((sum, s) => sum + r[s.key], 0);
const floorOf = (r, i) => Math.min(1, below(r, i));

// Errors of the lines between shares: that below the last keys is of the first ones, that above them of the far ones.
const lines = ["sink_mass", "far_mass"];

function shareFigure(name, rows, forecast, table) {
  const top = (r, i) => ({
    series: shares[i].name,
    x: r.n,
    y: floorOf(r, i + 1),
    tip: [
      ["n", show(r.n)],
      [shares[i].name, show(r[shares[i].key], r[`${shares[i].key}_se`])],
    ],
  });
  const bar = (r, i) => ({
    series: shares[i].name,
    x: r.n,
    lo: Math.max(0, floorOf(r, i + 1) - Z * r[`${lines[i]}_se`]),
    hi: Math.min(1, floorOf(r, i + 1) + Z * r[`${lines[i]}_se`]),
  });
  const found = forecast.filter((r) => isNumber(r.far_mass_measured)).map(asMeasured);
  const band = (r, i) => ({ series: shares[i].name, x: r.n, lo: floorOf(r, i), hi: floorOf(r, i + 1) });
  const later = forecast.length ? [rows[rows.length - 1], ...forecast] : [];
  return {
    title: `Where the weight of ${name} is`,
    caption: `Shares of the weight, one on top of the other, as contexts grow; dashed: forecast, with two standard errors.${found.length ? " Crosses: measured." : ""}`,
    table,
    x: { title: "n, keys that a query sees", log: true },
    y: { title: "share of the weight", share: true },
    series: shares.map((s, colour) => ({ name: s.name, colour })),
    layers: [
      ...shares.map((s, i) => ({ kind: "band", name: s.name, aside: true, rows: rows.map((r) => band(r, i)) })),
      ...shares.map((s, i) => ({ kind: "points", name: s.name, rows: [...rows, ...forecast].map((r) => top(r, i)) })),
      ...shares.map((s, i) => ({ kind: "line", aside: true, dash: [4, 3], rows: later.map((r) => top(r, i)) })),
      ...lines.map((key, i) => ({
        kind: "bars",
        name: "two standard errors",
        rows: forecast.filter((r) => isNumber(r[`${key}_se`])).map((r) => bar(r, i)),
      })),
      ...(found.length
        ? lines.map((_, i) => ({ kind: "points", name: "measured", shape: "cross", rows: found.map((r) => top(r, i)) }))
        : []),
    ],
  };
}

// What was found where a forecast was run, as a row of its own.
const asMeasured = (r) => ({
  n: r.n,
  ...Object.fromEntries(
    shares.flatMap(({ key }) => [
      [key, r[`${key}_measured`]],
      [`${key}_se`, r[`${key}_measured_se`]],
    ]),
  ),
});

// Rows of --look positions as those of far_rows. Keys that are neither first nor last are far; there are such where n is
// twice as many as the others or more. None if forecasts count other last keys, or a learned sink has a part of the weight.
const FIRST = 4;
const LAST = 64;
function positionRows(positions, forecast, near) {
  const whole = forecast.every((r) => Math.abs(below(r, shares.length) - 1) < 1e-6);
  if (!whole || Number(near ?? LAST) !== LAST) return [];
  return positions
    .filter((r) => r.n >= 2 * (FIRST + LAST))
    .map((r) => ({ ...r, far_mass: Math.max(0, 1 - r.sink_mass - r.local_mass) }));
}

function shareFigures(rows, forecast, several, table) {
  const named = (all) => all.map((r) => ({ ...r, name: headName(r, several) }));
  const later = new Map(groupBy(named(forecast), "name"));
  const options = groupBy(named(rows), "name").map(([name, of]) => ({
    name,
    group: `${several ? `${of[0].domain}, ` : ""}layer ${of[0].layer}`,
    pick: pickOf(of[0], several),
    figure: () => shareFigure(name, of, later.get(name) ?? [], table),
  }));
  return options.length ? [{ open: true, picks: true, label: "Where its weight is, with the forecast, head:", options }] : [];
}

// Without far_rows forecasts stand beside positions.
export function farFigures(tables, several, near) {
  const { far_heads: heads = [], exchangeability = [], far_rows: rows = [], forecast = [], positions = [] } = tables;
  const changed = exchangeability.length ? changes.map((c) => changeFigure(c, exchangeability, several)) : [];
  if (rows.length) return [...farMaps(heads, several), ...shareFigures(rows, forecast, several, "far_rows"), ...changed];
  return forecast.length ? shareFigures(positionRows(positions, forecast, near), forecast, several, "positions") : [];
}
