/* SPDX-License-Identifier: Apache-2.0 */
// probe.js : what each head of a model does, in each domain of text: maps of all heads, the curves of one, rates, sinks.
import { groupBy, highest, isNumber, lowest, show } from "../tables.js";
import { contextFigures } from "./contexts.js";
import { domainFigures } from "./domains.js";
import { farFigures } from "./far.js";
import { headCurves } from "./head-curves.js";
import { classesOf } from "./classes.js";
import { columnsOf, headName, headOf, pickOf } from "./heads.js";
import { heatMap } from "./heat-map.js";
import { positionFigures } from "./positions.js";

const Z = 2; // standard errors to either side

const sinkMass = (r) => (isNumber(r.sink_first) && isNumber(r.sink_last) ? r.sink_first + r.sink_last : null);

const quantities = [
  { key: "horizon", title: "horizon H", log: true, caption: "Scores that spread by H or more let a few tokens carry the sum." },
  {
    key: "rate_map",
    title: "rate of single outputs",
    caption: "Error ∼ n^−rate, measured on this text; ½ is the rate of independent samples.",
  },
  {
    key: "gaussian_frozen",
    title: "share of queries with u > 1",
    caption:
      "Queries whose scores spread by more than √(2 ln n): of n Gaussian tokens one would carry them. What real tokens do is the next map.",
    domain: [0, 1],
  },
  {
    key: "top_n_high",
    title: "share of queries with a top weight above ½",
    caption:
      "Queries that give one of the n tokens of a draw more than half of their weight, measured at the largest n.",
    domain: [0, 1],
  },
  {
    key: "local_exponent",
    title: "local exponent α",
    caption: "P(1 − cos(query, key) ≤ t) ∼ t^α: twice it is in how many dimensions keys vary near a query.",
  },
  { key: "entropy", title: "entropy, nats", caption: "Of a row of attention weights, averaged over queries." },
  {
    key: "sink",
    title: "weight on [CLS] and [SEP]",
    caption: "Of a row of attention weights in the text's own blocks.",
    domain: [0, 1],
  },
  {
    key: "relative_error",
    title: "relative error",
    log: true,
    caption: "Of single outputs at the largest n, over their spread: near 0.1 and below, more tokens hardly change them.",
  },
  {
    key: "tokens_for_tenth",
    log: true,
    sign: "tokens_for_tenth_sign",
    title: "tokens for 10 %",
    caption: "The number of tokens from which on single outputs are within a tenth of their spread, by the weights on the pool.",
  },
];

const more = [
  { key: "score_sd", title: "spread of scores" },
  { key: "rate_map_predicted", title: "predicted rate" },
  { key: "tokens_for_tenth", sign: "tokens_for_tenth_sign", title: "tokens for 10 %" },
  { key: "ess", title: "effective tokens" },
];

// A map whose cells are all alike shows nothing.
const varies = (rows, key) => new Set(rows.map((r) => r[key]).filter(isNumber)).size > 1;

// What the signs in cells mean, and how many there are: "41 of 72 are lower bounds (>)."
function signsOf(rows, { sign }) {
  const count = (what) => rows.filter((r) => sign && r[sign] === what).length;
  const [bounds, any] = [count(">"), count("any")];
  const words = [
    bounds && `${bounds} of ${rows.length} ${bounds === 1 ? "is a lower bound" : "are lower bounds"} (>).`,
    any && `In ${any} of ${rows.length} any number of tokens will do (any).`,
  ];
  return words.filter(Boolean).join(" ");
}

function headMaps(heads, several, curves) {
  const domains = groupBy(heads, "domain");
  const options = domains.flatMap(([domain, rows]) =>
    [...classesOf(rows, "class", "ess_n"), ...quantities]
      .filter(({ key }) => varies(rows, key))
      .map((value) => {
        const words = [
          value.caption,
          signsOf(rows, value),
          curves && "Press a cell for its curves.",
        ];
        const name = `${value.title}${several ? `: ${domain}` : ""}`;
        const figure = () =>
          heatMap({
            rows,
            table: "heads",
            title: `Heads by ${name}`,
            caption: words.filter(Boolean).join(" "),
            x: { key: "head", title: "head" },
            y: { key: "layer", title: "layer" },
            value,
            domain: value.domain,
            more: more.filter(({ key }) => key !== value.key),
            pick: curves && ((r) => ({ at: headOf(r), pick: pickOf(r, several) })),
          })[0];
        return { name, figure };
      }),
  );
  return options.length ? [{ open: true, label: "Colour:", options }] : [];
}

// ---- predicted against measured ----

const FROZEN = 0.05;
const kinds = [
  { name: "few queries with u > 1", of: (r) => !(r.gaussian_frozen > FROZEN), colour: 0 },
  { name: `more than ${100 * FROZEN} % with u > 1`, of: (r) => r.gaussian_frozen > FROZEN, colour: 1 },
];

// Of what, and what predicts it.
const rates = [
  {
    key: "rate_map",
    predicted: "rate_map_predicted",
    name: "single outputs",
    how: "for Gaussian tokens of the same covariance, by exact finite-n integrals",
  },
  {
    key: "rate_mean",
    predicted: "rate_mean_gaussian",
    name: "mean output",
    how: "what Gaussian tokens of the same covariance showed",
  },
  {
    key: "rate_cov",
    predicted: "rate_cov_gaussian",
    name: "their covariance",
    how: "what Gaussian tokens of the same covariance showed",
  },
];

function rateFigure(rows, { key, predicted, name: what, how }, several) {
  const series = kinds.filter(({ of }) => rows.some(of));
  const all = rows.flatMap((r) => [r[key], r[predicted]]);
  const ends = [lowest(all, 0), highest(all, 0.55)];
  const each = (f) =>
    series.flatMap(({ name, of }) => rows.filter(of).map((r) => ({ series: name, ...columnsOf(r, several), x: r[predicted], ...f(r) })));
  return {
    title: `Measured against predicted rate: ${what}`,
    caption: `One mark for each head, with 95 % intervals. Predicted: ${how}, over the same n. Line: where the two agree.`,
    table: "heads",
    x: { title: "predicted rate", column: "predicted", domain: ends },
    y: { title: "measured rate", column: "measured" },
    series: series.map(({ name, colour }) => ({ name, colour })),
    layers: [
      { kind: "line", name: "equal", plain: true, dash: [4, 3], width: 1.2, rows: ends.map((v) => ({ x: v, y: v })) },
      {
        kind: "bars",
        name: "95 % interval",
        rows: each((r) => ({
          lo: r[`${key}_ci.0`] ?? r[key] - Z * r[`${key}_se`],
          hi: r[`${key}_ci.1`] ?? r[key] + Z * r[`${key}_se`],
        })),
      },
      {
        kind: "points",
        name: "heads",
        rows: each((r) => ({
          y: r[key],
          at: headOf(r),
          pick: pickOf(r, several),
          tip: [
            ["head", headName(r, several)],
            ["predicted", show(r[predicted], r[`${predicted}_se`])],
            ["measured", show(r[key], r[`${key}_se`])],
            ["horizon", show(r.horizon)],
            ["u > 1", show(r.gaussian_frozen)],
          ],
        })),
      },
    ],
  };
}

function rateFigures(heads, several) {
  const options = rates.flatMap((rate) => {
    const rows = heads.filter((r) => isNumber(r[rate.key]) && isNumber(r[rate.predicted]));
    return rows.length < 2 ? [] : [{ name: rate.name, figure: () => rateFigure(rows, rate, several) }];
  });
  return options.length ? [{ label: "Rate of:", options }] : [];
}

// ---- sinks ----

const ends = [
  { key: "sink_first", name: "[CLS]", colour: 0 },
  { key: "sink_last", name: "[SEP]", colour: 1 },
];

function sinkFigure(heads, several) {
  const widest = highest(heads.map((r) => r.head), 1);
  const layers = highest(heads.map((r) => r.layer), 0);
  if (!heads.some((r) => isNumber(r.sink_first))) return [];
  return [
    {
      title: "Weight on the first and the last token of a block",
      caption: "Mean over queries, one mark for each head, heads side by side within their layer.",
      table: "heads",
      x: { title: "layer", column: "layer", domain: [-0.5, layers + 0.5], nice: false },
      y: { title: "weight", column: "weight", share: true },
      series: ends.map(({ name, colour }) => ({ name, colour })),
      layers: [
        {
          kind: "points",
          name: "heads",
          rows: ends.flatMap(({ key, name }) =>
            heads.map((r) => ({
              series: name,
              x: r.layer + 0.7 * (r.head / widest - 0.5),
              of: columnsOf(r, several),
              y: r[key],
              at: headOf(r),
              pick: pickOf(r, several),
              tip: [
                ["head", headName(r, several)],
                ["weight", show(r[key])],
              ],
            })),
          ),
        },
      ],
    },
  ];
}

// Rates by the papers' protocol against their horizon: all heads of a layer as one, without 1/sqrt(k), both axes logarithmic.
function paperFigure(rates = []) {
  const key = "horizon_unscaled_all_heads";
  const measures = [
    { rate: "rate_mean", name: "mean" },
    { rate: "rate_cov", name: "covariance" },
  ];
  const points = measures.flatMap(({ rate, name }) =>
    rates
      .filter((r) => r[key] > 0 && r[rate] > 0)
      .map((r) => ({
        series: name,
        x: r[key],
        y: r[rate],
        tip: [
          ["layer, passage", `${r.layer}, ${r.block}`],
          ["H of all heads", show(r[key])],
          ["rate", show(r[rate], r[`${rate}_se`])],
        ],
      })),
  );
  if (!points.length) return [];
  return [
    {
      title: "Rates against the horizon, by the papers' protocol",
      caption:
        "Error ∼ n^−rate of the mean and the covariance of all heads side by side; a point is a layer and a passage. H is of all " +
        "heads as one, without the 1/√k of the softmax. Rates that are not positive are left out.",
      table: "paper_rates",
      x: { title: "H of all heads, without 1/√k", column: key, log: true },
      y: { title: "rate", log: true },
      series: measures.map(({ name }, i) => ({ name, colour: i })),
      layers: [{ kind: "points", name: "measured", rows: points }],
    },
  ];
}

export function probe({ tables, params = {} }) {
  const { heads: given = [], rows = [], windows = [], differences = [] } = tables;
  const heads = given.map((r) => ({ ...r, sink: sinkMass(r) }));
  const all = [...heads, ...(tables.position_heads ?? []), ...(tables.far_heads ?? [])];
  const several = new Set(all.map((r) => r.domain)).size > 1;
  const curves = headCurves(heads, rows, windows, several);
  return [
    ...positionFigures(tables, several),
    ...farFigures(tables, several, params.near),
    ...headMaps(heads, several, curves.length > 0),
    ...curves,
    ...contextFigures(tables, several),
    ...rateFigures(heads, several),
    ...paperFigure(tables.paper_rates),
    ...sinkFigure(heads, several),
    ...domainFigures(differences),
  ];
}
