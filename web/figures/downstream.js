/* SPDX-License-Identifier: Apache-2.0 */
// downstream.js : what keeping some of the keys costs an answer: accuracy or likeness, divergence, thirds of the heads,
// heads one by one.
import { groupBy, isNumber, show } from "../tables.js";

const Z = 2; // standard errors to either side
const KEYS = "keys of a query, mean over texts";

// Policies against the keys that they keep, the full model as a line across.
function against(rows, { key, title, y, log, caption, full }) {
  const drawn = (rows ?? []).filter((r) => isNumber(r[key]) && r.policy !== "full");
  if (!drawn.length) return [];
  const se = `${key}_se`;
  const groups = groupBy(drawn, "policy");
  const each = (f) => groups.flatMap(([series, of]) => of.map((r) => ({ series, x: r.keys, ...f(r) })));
  const tip = (r) => [
    ["policy", r.policy],
    [KEYS, show(r.keys)],
    [y, show(r[key], r[se])],
  ];
  const whole = full && rows.find((r) => r.policy === "full" && isNumber(r[key]));
  const name = "all keys";
  return [
    {
      title,
      caption: `${caption} Points with two standard errors over texts.${whole ? " Dashed: the full model." : ""}`,
      table: "rows",
      x: { title: KEYS, log: true },
      y: { title: y, log },
      series: [
        ...groups.map(([series], i) => ({ name: series, colour: i })),
        ...(whole ? [{ name, colour: 7, dash: [6, 4] }] : []),
      ],
      layers: [
        { kind: "line", name: "policies", rows: each((r) => ({ y: r[key] })) },
        ...(whole
          ? [
              {
                kind: "line",
                name,
                dash: [6, 4],
                rows: [Math.min(...drawn.map((r) => r.keys)), Math.max(...drawn.map((r) => r.keys))].map((x) => ({
                  series: name,
                  x,
                  y: whole[key],
                })),
              },
            ]
          : []),
        {
          kind: "bars",
          name: "two standard errors",
          rows: each((r) => ({ lo: r[key] - Z * r[se], hi: r[key] + Z * r[se] })),
        },
        { kind: "points", name: "measured", rows: each((r) => ({ y: r[key], tip: tip(r) })) },
      ],
    },
  ];
}

const amount = (r) => (isNumber(r.keep) ? `${show(r.keep)} of the keys` : `${show(r.keys_asked ?? r.keys)} keys`);

// A figure for each number of keys, where there are several, in one place.
function byAmount(rows, key, make) {
  const groups = groupBy(
    (rows ?? []).filter((r) => isNumber(r[key])).map((r) => ({ ...r, amount: amount(r) })),
    "amount",
  );
  if (groups.length < 2) return groups.flatMap(([name, of]) => [make(of, name)]);
  return [{ label: "Heads keep", options: groups.map(([name, of]) => ({ name, figure: () => make(of, name) })) }];
}

const costOf = (key) =>
  key === "kl"
    ? { value: (r) => r.kl, title: "KL from the full model, nats" }
    : { value: (r) => 1 - r.cosine, title: "1 − cosine with the full embedding" };

// Fast, middle, slow as places 1, 2, 3, policies side by side.
function strata(rows, key, name) {
  const names = ["fast", "middle", "slow"];
  const groups = groupBy(rows, "policy");
  const { value, title } = costOf(key);
  const each = (f) =>
    groups.flatMap(([series, of], i) =>
      of.map((r) => ({ series, x: names.indexOf(r.stratum) + 1 + 0.06 * (i - (groups.length - 1) / 2), ...f(r) })),
    );
  return {
    title: `A third of the heads at ${name}, by horizon`,
    caption:
      "Fast: the third of the heads with the smallest horizons; slow: the largest. Points with two standard errors " +
      "over texts.",
    table: "strata",
    x: { title: "heads in which keys are dropped", names },
    y: { title, log: true },
    series: groups.map(([series], i) => ({ name: series, colour: i })),
    layers: [
      {
        kind: "bars",
        name: "two standard errors",
        rows: each((r) => ({ lo: value(r) - Z * r[`${key}_se`], hi: value(r) + Z * r[`${key}_se`] })),
      },
      {
        kind: "points",
        name: "measured",
        rows: each((r) => ({
          y: value(r),
          tip: [
            ["heads", `${r.stratum}, horizons ${show(r.horizon_low)} to ${show(r.horizon_high)}`],
            [title, show(value(r), r[`${key}_se`])],
          ],
        })),
      },
    ],
  };
}

// Each policy against its keys, a line for each third of the texts.
function textThirds(rows, key) {
  const drawn = (rows ?? []).filter((r) => isNumber(r[key]) && r.policy !== "full");
  if (!drawn.length) return [];
  const { value, title } = costOf(key);
  const several = groupBy(drawn, "policy").length > 1;
  const named = drawn.map((r) => ({ ...r, name: several ? `${r.policy}, ${r.stratum}` : r.stratum }));
  const groups = groupBy(named, "name");
  const each = (f) => groups.flatMap(([series, of]) => of.map((r) => ({ series, x: r.keys, ...f(r) })));
  const tip = (r) => [
    ["texts", `${r.stratum}, horizons ${show(r.horizon_low)} to ${show(r.horizon_high)}`],
    ["tokens, mean", show(r.tokens)],
    [KEYS, show(r.keys)],
    [title, show(value(r), r[`${key}_se`])],
  ];
  return [
    {
      title: "Divergence against the keys that are kept, by horizon of the texts",
      caption:
        "Low: the third of the texts whose own tokens have the smallest horizons; high: the largest. Points with two " +
        "standard errors over texts.",
      table: "text_strata",
      x: { title: KEYS, log: true },
      y: { title, log: true },
      series: groups.map(([series], i) => ({ name: series, colour: i })),
      layers: [
        { kind: "line", name: "thirds", rows: each((r) => ({ y: value(r) })) },
        {
          kind: "bars",
          name: "two standard errors",
          rows: each((r) => ({ lo: value(r) - Z * r[`${key}_se`], hi: value(r) + Z * r[`${key}_se`] })),
        },
        { kind: "points", name: "measured", rows: each((r) => ({ y: value(r), tip: tip(r) })) },
      ],
    },
  ];
}

// A head's cost against its horizon.
function oneByOne(heads, key, name) {
  const groups = groupBy(heads, "policy");
  const { value, title } = costOf(key);
  return {
    title: `What one head at ${name} costs, against its horizon`,
    caption: "Each point is a head; keys are dropped in it alone.",
    table: "heads",
    x: { title: "horizon of the head", log: true },
    y: { title, log: true },
    series: groups.map(([series], i) => ({ name: series, colour: i })),
    layers: [
      {
        kind: "points",
        name: "heads",
        rows: groups.flatMap(([series, of]) =>
          of.map((r) => ({
            series,
            x: r.horizon,
            y: value(r),
            of: { layer: r.layer, head: r.head },
            tip: [
              ["head", `layer ${r.layer}, head ${r.head}`],
              ["horizon", show(r.horizon)],
              [title, show(value(r), r[`${key}_se`])],
            ],
          })),
        ),
      },
    ],
  };
}

export function downstream({ tables: { rows, strata: thirds, text_strata: texts, heads } }) {
  return [
    ...against(rows, {
      key: "accuracy",
      title: "Accuracy against the keys that are kept",
      y: "accuracy",
      caption: "Share of the texts that are labelled right.",
      full: true,
    }),
    ...against(rows, {
      key: "cosine",
      title: "Embeddings against the keys that are kept",
      y: "cosine with the full embedding",
      caption: "Mean over paragraphs.",
    }),
    ...against(rows, {
      key: "kl",
      title: "Divergence against the keys that are kept",
      y: "KL from the full model, nats",
      log: true,
      caption: "Of the distribution over labels, the full model’s from that of the model with fewer keys.",
    }),
    ...against(rows, {
      key: "recall",
      title: "Nearest neighbours that stay",
      y: "recall@1",
      caption: "Share of the paragraphs whose nearest neighbour is the full model’s.",
      full: true,
    }),
    ...["kl", "cosine"].flatMap((key) => [
      ...textThirds(texts, key),
      ...byAmount(thirds, key, (of, name) => strata(of, key, name)),
      ...byAmount(heads, key, (of, name) => oneByOne(of, key, name)),
    ]),
  ];
}
