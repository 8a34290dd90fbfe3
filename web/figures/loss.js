/* SPDX-License-Identifier: Apache-2.0 */
// loss.js : a decoder's loss by position and by window, with and without the first keys; what scaling scores does; loss
// by position per stretching of rotary positions.
import { groupBy, highest, isNumber, lowest, show } from "../tables.js";

const Z = 2; // standard errors to either side

// Bars are left out where one block gives no error.
const barsOf = (rows, value, se) =>
  rows
    .filter((r) => isNumber(r[se]))
    .map((r) => ({ ...r.at, lo: r[value] - Z * r[se], hi: r[value] + Z * r[se] }));

// Each setting a line; places are the geometric centres of their bins. With `trained`, a line where the trained context
// ends.
function positionFigure(groups, title, trained) {
  const each = groups.flatMap(([series, of]) =>
    of.map((r) => ({ ...r, at: { series, x: Math.sqrt(r.from * (r.to - 1)) } })),
  );
  return {
    title,
    caption:
      "Mean of −ln p over tokens at these places of their blocks, at the geometric centre of each bin, with two " +
      "standard errors over blocks." +
      (trained ? ` The dashed line is the end of the trained context, ${show(trained)} tokens.` : ""),
    table: groups.length === 1 ? "rows" : "positions",
    x: { title: "place in the block", log: true },
    y: { title: "loss, nats per token" },
    series: groups.map(([name], i) => ({ name, colour: i })),
    layers: [
      ...(trained ? [trainedLine(each, trained)] : []),
      { kind: "line", aside: true, rows: each.map((r) => ({ ...r.at, y: r.nll })) },
      { kind: "bars", name: "two standard errors", rows: barsOf(each, "nll", "nll_se") },
      {
        kind: "points",
        name: "mean of the bin",
        rows: each.map((r) => ({
          ...r.at,
          y: r.nll,
          tip: [
            ["setting", r.setting],
            ["places", `${r.from} to ${r.to - 1}`],
            ["loss", show(r.nll, r.nll_se)],
            ["tokens", show(r.count)],
          ],
        })),
      },
    ],
  };
}

// Many settings would hide each other: then one at a time, beside the model as it is.
function byPosition(rows) {
  if (!rows?.length) return [];
  const groups = groupBy(
    rows.map((r) => ({ ...r, setting: r.setting ?? "loss" })),
    "setting",
  );
  if (groups.length <= 6) return [positionFigure(groups, "Loss by position")];
  const [full, ...others] = groups;
  return [
    {
      label: "Loss by position with",
      options: others.map((one) => ({
        name: one[0],
        figure: () => positionFigure([full, one], `Loss by position, ${one[0]}`),
      })),
    },
  ];
}

// A line where the trained context ends.
function trainedLine(rows, trained) {
  const ends = rows.map((r) => r.nll).filter(isNumber);
  return {
    kind: "line",
    plain: true,
    dash: [3, 3],
    aside: true,
    name: `trained context, ${show(trained)}`,
    rows: [lowest(ends), highest(ends)].map((y, k) => ({ series: rows[0].at.series, x: trained, y, k })),
  };
}

// Stretchings of one score scale are a figure, each with the model as it is.
function byStretch(stretch, positions, trained) {
  const settings = groupBy(positions, "setting");
  const scales = groupBy(stretch, "scale");
  const figureOf = ([scale, of]) => {
    const names = new Set(["full", ...of.map((r) => r.setting)]);
    const groups = settings.filter(([name]) => names.has(name));
    const title = "Loss by position per stretching" + (scale === "none" ? "" : `, scores × ${scale}`);
    return positionFigure(groups, title, positions.some((r) => r.to > trained) && trained);
  };
  if (scales.length === 1) return [figureOf(scales[0])];
  return [
    {
      label: "Loss by position per stretching, scores times",
      options: scales.map((one) => ({ name: one[0], figure: () => figureOf(one) })),
    },
  ];
}

const linesOf = (r) => {
  const sinks = r.sinks ? `first ${show(r.sinks)} key${r.sinks === 1 ? "" : "s"} kept` : "first keys dropped";
  return r.scale && r.scale !== "none" ? `${sinks}, scores × ${r.scale}` : sinks;
};

// Cost against window, a line for each series; rows have series, window, cost and its error.
function costFigure(title, caption, table, rows) {
  const groups = groupBy(rows, "series");
  const each = groups.flatMap(([series, of]) => of.map((r) => ({ ...r, at: { series, x: r.window } })));
  return {
    title,
    caption: `${caption} Tokens in the second half of their blocks; two standard errors over blocks.`,
    table,
    x: { title: "window, keys", log: true },
    y: { title: "cost, nats per token" },
    series: groups.map(([name], i) => ({ name, colour: i })),
    layers: [
      { kind: "line", aside: true, rows: each.map((r) => ({ ...r.at, y: r.cost })) },
      { kind: "bars", name: "two standard errors", rows: barsOf(each, "cost", "se") },
      {
        kind: "points",
        name: "measured",
        rows: each.map((r) => ({
          ...r.at,
          y: r.cost,
          tip: [
            ["window", `${show(r.window)} keys, ${r.series}`],
            ["cost", show(r.cost, r.se)],
          ],
        })),
      },
    ],
  };
}

// What the context beyond a window is worth: its cost with the first keys kept, and that of a fresh text. A fresh text
// is the same whatever the sinks and scales of the window beside it.
function byContext(windows) {
  if (!windows?.length) return [];
  const kept = windows.map((r) => ({ ...r, series: linesOf(r), se: r.cost_se }));
  const fresh = windows
    .filter((r) => isNumber(r.fresh) && r.sinks === windows[0].sinks)
    .map((r) => ({ window: r.window, series: "fresh text", cost: r.fresh, se: r.fresh_se }));
  return [
    costFigure(
      "What the context beyond a window is worth",
      "What a window costs: loss with it and the first keys, minus the loss of the model as it is. Fresh text: the model reads only the " +
        "last W to 2W − 1 tokens, as a text of its own.",
      "windows",
      [...kept, ...fresh],
    ),
  ];
}

// The same window with and without the first keys: the difference is what the lost sink costs.
function bySinks(settings) {
  const rows = (settings ?? [])
    .filter((r) => isNumber(r.window) && isNumber(r.late))
    .map((r) => ({ ...r, series: linesOf(r), cost: r.late, se: r.late_se }));
  if (!rows.length) return [];
  return [
    costFigure(
      "Windows with and without the first keys",
      "What a window costs: loss with it, minus the loss of the model as it is. Without the first keys a window takes the sink from the " +
        "model, too: the difference is no context.",
      "settings",
      rows,
    ),
  ];
}

// Policies against the keys that they keep; and scores scaled, by their entropy.
function byKeys(settings, pick, x, title, caption) {
  const rows = (settings ?? []).filter((r) => pick(r) && isNumber(r.cost) && isNumber(r[x.key]));
  if (!rows.length) return [];
  const named = rows.map((r) => ({ ...r, line: x.line(r) }));
  const groups = groupBy(named, "line");
  const each = groups.flatMap(([series, of]) => of.map((r) => ({ ...r, at: { series, x: r[x.key] } })));
  return [
    {
      title,
      caption: `${caption} Two standard errors over blocks.`,
      table: "settings",
      x: { title: x.title, log: x.log },
      y: { title: "cost, nats per token" },
      series: groups.map(([name], i) => ({ name, colour: i })),
      layers: [
        { kind: "bars", name: "two standard errors", rows: barsOf(each, "cost", "cost_se") },
        {
          kind: "points",
          name: "measured",
          rows: each.map((r) => ({
            ...r.at,
            y: r.cost,
            tip: [
              ["setting", r.setting],
              ["cost", show(r.cost, r.cost_se)],
              ["entropy", show(r.entropy, r.entropy_se)],
              ["keys", show(r.keys)],
            ],
          })),
        },
      ],
    },
  ];
}

export function loss({ answer, tables: { rows, settings, positions, windows, stretch } }) {
  const stretched = stretch?.length > 1 && positions?.length;
  return [
    ...(stretched ? byStretch(stretch, positions, Number(answer.trained)) : []),
    ...byContext(windows),
    ...bySinks(settings),
    ...(stretched ? [] : byPosition(positions ?? rows)),
    ...byKeys(
      settings,
      (r) => r.policy,
      { key: "keys", title: "keys of a query, mean", log: true, line: (r) => r.policy },
      "Loss against the keys that are kept",
      "Loss less that with all keys, on the same tokens.",
    ),
    ...byKeys(
      settings,
      (r) => r.scale && r.scale !== "none",
      { key: "entropy", title: "entropy of attention, nats, mean over heads", line: (r) => r.setting },
      "Scores scaled: entropy and loss",
      "Loss less that of the model as it is, against the mean entropy of its attention.",
    ),
  ];
}
