/* SPDX-License-Identifier: Apache-2.0 */
// budget.js : frontiers, errors against the share that is kept, by way of sharing out and by policy, with the limit; maps
// of what each head keeps and of what it looks at, and of keys and bits of a cache's key-value heads; keys against what a
// head needs; errors by layer, losses by position, and how much text the plan wants.
import { groupBy, isNumber, show } from "../tables.js";
import { curves } from "./curves.js";
import { headName, headOf, pickOf } from "./heads.js";
import { heatMap } from "./heat-map.js";

const Z = 2; // standard errors to either side

// ---- frontiers ----

const LIMIT = "limit";
const OURS = "all policies"; // in the frontier's table: what `ours` is among allocations
const limit = { name: LIMIT, colour: 7, dash: [6, 4] };
const COLOURS = [4, 5, 6]; // of policies; allocations have the first four
const DASHES = [
  [7, 3],
  [2, 2],
  [8, 3, 2, 3],
];

// What is drawn against the share of keys: columns of `allocations`, verified and predicted, and of `frontier`.
const kinds = [
  {
    name: "error of the last hidden state",
    measured: "state",
    predicted: "state_predicted",
    alone: "state",
    axis: "error over spread",
    words: "Over the spread: the root mean square distance of hidden states from their mean over tokens.",
  },
  {
    name: "divergence of what the model says",
    measured: "kl",
    predicted: "kl_predicted",
    alone: "kl",
    axis: "KL divergence, nats",
    words: "Of the next token, or of a classifier's labels.",
  },
  {
    name: "extra loss", // predicted where distributions of the next token do not fit into memory
    measured: "loss",
    predicted: "loss_predicted",
    alone: "loss",
    axis: "extra loss, nats",
    words: "Nats per token over late positions.",
  },
];

const byShare = (rows, key) =>
  rows.filter((r) => isNumber(r[key])).sort((a, b) => a.asked - b.asked);

// Predicted lines and verified points of one allocation.
function wayLayers(rows, { measured, predicted, axis }, bytes) {
  const tip = (r) => [
    ["allocation", r.allocation],
    ["share kept", show(r.ratio)],
    ...(isNumber(bytes) ? [["cache, MB", show((r.ratio * bytes) / 1e6)]] : []),
    [`${axis}, predicted`, show(r[predicted])],
    ...(isNumber(r[measured]) ? [[`${axis}, verified`, show(r[measured], r[`${measured}_se`])]] : []),
  ];
  const each = (key, f) => byShare(rows, key).map((r) => ({ series: r.allocation, x: r.asked, ...f(r) }));
  const points = each(measured, (r) => ({ y: r[measured], tip: tip(r) }));
  const bars = each(measured, (r) => ({
    lo: r[measured] - Z * r[`${measured}_se`],
    hi: r[measured] + Z * r[`${measured}_se`],
  }));
  return [
    { kind: "line", name: "predicted", rows: each(predicted, (r) => ({ y: r[predicted], tip: tip(r) })) },
    ...(points.length ? [{ kind: "bars", name: "two standard errors", rows: bars }] : []),
    ...(points.length ? [{ kind: "points", name: "verified", rows: points }] : []),
  ];
}

const lineOf = (rows, series, key, look) => ({
  kind: "line",
  name: series.name,
  dash: series.dash,
  ...look,
  rows: byShare(rows, key).map((r) => ({ series: series.name, x: r.asked, y: r[key] })),
});

function frontierOf(kind, ways, points, bytes) {
  const names = groupBy(points, "by").map(([by]) => by);
  const policies = names
    .filter((by) => by !== LIMIT && by !== OURS)
    .map((name, i) => ({ name, colour: COLOURS[i % COLOURS.length], dash: DASHES[Math.floor(i / COLOURS.length) % 3] }));
  const of = (name) => points.filter((r) => r.by === name);
  const tried = ways.some((r) => isNumber(r[kind.measured]));
  return {
    title: `All allocations: ${kind.name}`,
    caption:
      `${kind.words} ${tried ? "Points with two standard errors: verified on text that the plan was not made from. " : ""}` +
      "Full lines: predicted, each head with its best policy. Dashed in colours: ours, with one policy, or one pair of types, for all heads." +
      (names.includes(LIMIT)
        ? " Grey: the limit of rules that keep their keys independently, to first order; biased rules may lie below it."
        : ""),
    table: "allocations",
    x: { title: "share kept", log: true },
    y: { title: kind.axis, log: true },
    series: [
      ...groupBy(ways, "allocation").map(([name], i) => ({ name, colour: i })),
      ...policies,
      ...(names.includes(LIMIT) ? [limit] : []),
    ],
    layers: [
      ...policies.map((p) => lineOf(of(p.name), p, kind.alone, {})),
      ...(names.includes(LIMIT) ? [lineOf(of(LIMIT), limit, kind.alone, { width: 2.2 })] : []),
      ...wayLayers(ways, kind, bytes),
    ],
  };
}

// ---- the three lines that decide ----

const MINE = "ours";
const RIVAL = "best other plan";
const SINGLE = "best single setting";
const UNIFORM = "uniform"; // its name in the table

// Of rows with the same share the one with the smallest value.
const best = (rows, key) =>
  groupBy(rows.filter((r) => isNumber(r[key])), "asked").map(([, of]) => of.reduce((a, b) => (b[key] < a[key] ? b : a)));

// Our plan, the best single setting of all heads, and the limit; without one, the best of the other plans at each size.
function shortFrontier(kind, ways, points, bytes) {
  const called = (rows, allocation) => rows.map((r) => ({ ...r, way: r.allocation, allocation }));
  const of = (allocation) => ways.filter((r) => r.allocation === allocation);
  const others = ways.filter((r) => r.allocation !== MINE && r.allocation !== UNIFORM);
  const bound = points.filter((r) => r.by === LIMIT);
  const rivals = bound.length ? [] : best(others, kind.predicted);
  const drawn = [...of(MINE), ...called(of(UNIFORM), SINGLE), ...called(rivals, RIVAL)];
  return {
    title: `Frontier: ${kind.name}`,
    caption:
      `${kind.words} Lines: predicted. ` +
      (ways.some((r) => isNumber(r[kind.measured]))
        ? "Points with two standard errors: verified on text that the plan was not made from. "
        : "") +
      "Best single setting: the one predicted best, the same for all heads." +
      (rivals.length ? ` Best other plan: of ${groupBy(others, "allocation").length}, at each size.` : "") +
      (bound.length ? " Limit: of rules that keep their keys independently, to first order; biased rules may lie below it." : ""),
    table: "allocations",
    x: { title: bytes ? "share of the cache kept" : "share kept", log: true },
    y: { title: kind.axis, log: true },
    series: [
      { name: MINE, colour: 0 },
      { name: SINGLE, colour: 1 },
      ...(rivals.length ? [{ name: RIVAL, colour: 2 }] : []),
      ...(bound.length ? [limit] : []),
    ],
    layers: [...(bound.length ? [lineOf(bound, limit, kind.alone, { width: 2 })] : []), ...wayLayers(drawn, kind, bytes)],
  };
}

function frontiers(ways = [], points = [], plan) {
  const bytes = plan?.[0]?.bytes_before;
  const there = kinds.filter(({ predicted }) => ways.some((r) => isNumber(r[predicted])));
  const choice = (f) => there.map((kind) => ({ name: kind.name, figure: () => f(kind, ways, points, bytes) }));
  return there.length
    ? [
        { open: true, label: "Frontier:", options: choice(shortFrontier) },
        { label: "All allocations:", options: choice(frontierOf) },
      ]
    : [];
}

function losses(rows) {
  return curves({
    rows: (rows ?? []).filter((r) => isNumber(r.loss)),
    table: "allocations",
    title: "Extra loss by way of sharing out",
    caption:
      "Nats per token over late positions of a block, on text that the plan was not made from; of a classifier, KL of its " +
      "labels. It is not predicted: KL is, and has a figure of its own.",
    x: { key: "asked", title: "share kept", log: true },
    y: { title: "extra loss, nats" },
    name: (r) => r.allocation,
    measured: "loss",
  });
}

// ---- heads ----

const letter = (policy) => (policy ? policy[0] + (policy.includes("+inverse") ? "*" : "") : "");

const legend = (rows) => groupBy(rows, "policy").map(([policy]) => `${letter(policy)}: ${policy}`).join(", ");

const facts = [
  { key: "policy", title: "policy" },
  { key: "why", title: "concentration" },
  { key: "ess", title: "effective keys" },
  { key: "need", title: "keys of 95 % of the weight" },
  { key: "sinks", title: "sink mass" },
  { key: "over", title: "error, times the limit's" },
];

const maps = [
  {
    name: "keys kept",
    key: "keys",
    log: true,
    title: "Keys that each head keeps",
    words: (rows) => `In the cell: its policy (${legend(rows)}). Heads of a group share keys and values, and keep as many.`,
    letter: "letter",
  },
  { name: "effective keys", key: "ess", log: true, title: "Effective number of keys", words: () => "1/Σw², mean over queries." },
  {
    name: "keys of 95 % of the weight",
    key: "need",
    log: true,
    title: "Keys that hold 95 % of the weight",
    words: () => "Mean over queries: what a head would need if it knew which they are.",
    short: "keys",
  },
  {
    name: "sink mass",
    key: "sinks",
    title: "Sink mass: weight of the first four keys",
    words: () => "Many heads of decoders give most of their weight to the first keys, whatever these are.",
    short: "weight",
  },
  {
    name: "error over the limit",
    key: "over",
    log: true,
    title: "Error of each head over the limit",
    words: () => "Root of risk over limit: how far its policy is from the best rule that keeps as many keys independently.",
    short: "times",
  },
];

function heads(rows) {
  const all = (rows ?? []).map((r) => ({
    ...r,
    letter: letter(r.policy),
    over: r.limit > 0 ? Math.sqrt(r.risk / r.limit) : null,
  }));
  const mapOf = (m) =>
    heatMap({
      rows: all,
      table: "heads",
      title: m.title,
      caption: `${m.words(all)} Press a cell to find the head in the other figures.`,
      x: { key: "head", title: "head" },
      y: { key: "layer", title: "layer" },
      value: { key: m.key, title: m.short ?? m.name, letter: m.letter, log: m.log },
      more: facts.filter(({ key }) => key !== m.key),
      pick: (r) => ({ at: headOf(r), pick: pickOf(r, false) }),
    });
  const options = maps.filter((m) => mapOf(m).length).map((m) => ({ name: m.name, figure: () => mapOf(m)[0] }));
  return options.length ? [{ open: true, label: "Map of", options }, ...needs(all)] : [];
}

// Keys kept against keys needed, one point a head, by how many keys share its weight.
function needs(rows) {
  const drawn = rows.filter((r) => isNumber(r.need) && isNumber(r.keys));
  const ends = drawn.flatMap((r) => [r.need, r.keys]).filter((v) => v > 0);
  if (!ends.length) return [];
  const groups = groupBy(drawn, "why");
  const tip = (r) => [
    ["head", headName(r, false)],
    ["keys", show(r.keys)],
    ...facts.filter((f) => f.key in r).map((f) => [f.title, isNumber(r[f.key]) ? show(r[f.key]) : (r[f.key] ?? "–")]),
  ];
  return [
    {
      title: "Keys that heads keep, against what they need",
      caption:
        "A point is a head; colours say how many keys share its weight. Across: the keys that hold 95 % of its weight; a head " +
        "above the grey line keeps more than those, one below it fewer. Heads of a group keep as many.",
      table: "heads",
      x: { title: "keys of 95 % of the weight", column: "need", log: true },
      y: { title: "keys kept", column: "keys", log: true },
      series: groups.map(([name], i) => ({ name, colour: i })),
      layers: [
        {
          kind: "line",
          name: "as many as needed",
          plain: true,
          dash: [3, 3],
          rows: [Math.min(...ends), Math.max(...ends)].map((v) => ({ series: groups[0][0], x: v, y: v })),
        },
        {
          kind: "points",
          name: "heads",
          rows: drawn.map((r) => ({
            series: r.why,
            x: r.need,
            y: r.keys,
            of: { layer: r.layer, head: r.head },
            at: headOf(r),
            pick: pickOf(r, false),
            tip: tip(r),
          })),
        },
      ],
    },
  ];
}

// ---- key-value heads of a cache ----

const unitFacts = [
  { key: "policy", title: "policy" },
  { key: "keys", title: "keys" },
  { key: "ratio", title: "share of its keys" },
  { key: "k_type", title: "type of keys" },
  { key: "v_type", title: "type of values" },
  { key: "bits", title: "bits per number" },
  { key: "bytes", title: "bytes" },
];

// Policies share first letters: two distinguish them.
const twoLetters = (policy) => (policy ?? "").slice(0, 2);
const WIDE = 8; // key-value heads of a layer, at most, whose cells have space for number types

const unitMaps = [
  {
    name: "share of the keys",
    key: "ratio",
    title: "Share of its keys that each key-value head keeps",
    words: (rows) =>
      `In the cell: its policy (${groupBy(rows, "policy").map(([p]) => `${twoLetters(p)}: ${p}`).join(", ")}).`,
    domain: [0, 1],
    letter: "short",
  },
  {
    name: "bits per number",
    key: "bits",
    title: "Bits per number of each key-value head",
    words: (rows) =>
      `Mean of keys and values, scales included.${rows[0]?.types ? " In the cell: the number types, keys before values." : ""}`,
    letter: "types",
  },
  {
    name: "bytes",
    key: "bytes",
    title: "Bytes of each key-value head",
    words: () => "Of the keys and values that it keeps.",
  },
];

// Tiles of what each key-value head keeps: keys, bits, and their product.
function units(rows) {
  const wide = (rows ?? []).some((r) => r.kv_head >= WIDE);
  const types = (r) => (r.k_type === r.v_type ? r.k_type : `${r.k_type}/${r.v_type}`);
  const all = (rows ?? []).map((r) => ({ ...r, short: twoLetters(r.policy), types: wide ? "" : types(r) }));
  const mapOf = (m) =>
    heatMap({
      rows: all,
      table: "kv_heads",
      title: m.title,
      caption: m.words(all),
      x: { key: "kv_head", title: "key-value head" },
      y: { key: "layer", title: "layer" },
      value: { key: m.key, title: m.name, letter: m.letter },
      domain: m.domain,
      more: unitFacts.filter(({ key }) => key !== m.key),
    });
  const options = unitMaps.filter((m) => mapOf(m).length).map((m) => ({ name: m.name, figure: () => mapOf(m)[0] }));
  return options.length ? [{ open: true, label: "Map of", options }] : [];
}

// ---- layers ----

// Attention of each layer, with the limit at as many keys.
function layers(rows) {
  const [figure] = curves({
    rows,
    table: "layers",
    title: "Error of each layer's attention",
    caption: "Of its output, given the full model's state, over its spread.",
    x: { key: "layer", title: "layer", whole: true },
    y: { title: "error over spread", zero: true },
    name: () => "the plan",
    measured: "verified",
    law: "predicted",
    lawName: "predicted",
  });
  if (!figure) return [];
  const low = rows.filter((r) => isNumber(r.limit)).map((r) => ({ series: LIMIT, x: r.layer, y: r.limit }));
  return [
    {
      ...figure,
      caption: figure.caption + (low.length ? " Grey: the limit at as many keys." : ""),
      series: [...figure.series, ...(low.length ? [limit] : [])],
      layers: [
        ...(low.length ? [{ kind: "line", name: LIMIT, dash: limit.dash, width: 2.2, rows: low }] : []),
        ...figure.layers,
      ],
    },
  ];
}

function states(rows) {
  return curves({
    rows,
    table: "layers",
    title: "Error of the hidden state after each layer",
    caption: "With keys dropped in all layers, over its spread.",
    x: { key: "layer", title: "layer", whole: true },
    y: { title: "error over spread", zero: true },
    name: () => "the plan",
    measured: "state_verified",
    law: "state_predicted",
    lawName: "predicted",
  });
}

// ---- positions; text ----

function positions(rows) {
  return curves({
    rows: (rows ?? []).map((r) => ({ ...r, middle: 0.5 * (r.from + r.to) })),
    table: "positions",
    title: "Extra loss by position",
    caption: "Nats per token of the plan, on text that it was not made from, by stretches of a block; points at their middles.",
    x: { key: "middle", title: "position" },
    y: { title: "extra loss, nats", zero: true },
    name: () => "the plan",
    measured: "loss",
  });
}

function text(rows) {
  const drawn = (rows ?? []).flatMap((r) => [
    { tokens: r.tokens, share: r.moved, what: "keys that go to other heads" },
    { tokens: r.tokens, share: r.worse, what: "error of the last hidden state, more" },
  ]);
  return rows?.length > 1
    ? curves({
        rows: drawn,
        table: "calibration",
        title: "How much text the plan wants",
        caption:
          "Plans made from a few blocks, mean over as many as there are, against the plan made from all of them, as shares; " +
          "errors on the blocks that they were not made from.",
        x: { key: "tokens", title: "tokens of text", log: true },
        y: { title: "share", zero: true },
        name: (r) => r.what,
        measured: "share",
      })
    : [];
}

export function budget({ tables: t }) {
  return [
    ...frontiers(t.allocations, t.frontier, t.plan),
    ...heads(t.heads),
    ...units(t.kv_heads),
    ...layers(t.layers),
    ...states(t.layers),
    ...losses(t.allocations),
    ...positions(t.positions),
    ...text(t.calibration),
  ];
}
