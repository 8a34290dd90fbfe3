/* SPDX-License-Identifier: Apache-2.0 */
// collapse.js : do outputs merge? Across the threshold, the phase diagram, and the scalings in use.
import { curves } from "./curves.js";
import { extent, grid, isNumber, show } from "../tables.js";

const ordered = (rows, key) => [...new Set(rows.map((r) => r[key]))].filter(isNumber).sort((a, b) => a - b);

// Where the tile of each value begins and ends: half-way to its neighbours, by factors if `log`.
function edges(values, log) {
  const at = log ? values.map(Math.log) : values;
  const half = (i) =>
    (at[Math.min(Math.max(i + 1, 1), at.length - 1)] - at[Math.max(Math.min(i, at.length - 2), 0)]) / 2;
  const back = log ? Math.exp : (v) => v;
  return new Map(values.map((v, i) => [v, [back(at[i] - half(i - 1)), back(at[i] + half(i))]]));
}

function diagram(cells, n, table, thresholds) {
  const ours = cells.filter((r) => (r.n ?? 0) === n && r.gamma > 0 && isNumber(r.rho));
  const [rhos, gammas] = [ordered(ours, "rho"), ordered(ours, "gamma")];
  if (rhos.length < 3 || gammas.length < 3 || ours.length < 0.9 * rhos.length * gammas.length) return [];
  const [across, up] = [edges(rhos, false), edges(gammas, true)];
  const x = [across.get(rhos[0])[0], across.get(rhos.at(-1))[1]],
    y = [up.get(gammas[0])[0], up.get(gammas.at(-1))[1]];
  const inside = (r) => isNumber(r.y) && r.y >= y[0] && r.y <= y[1];
  const critical = grid(x[0], Math.min(x[1], 0.9999), 120)
    .map((rho) => ({ series: "critical γ = 1/(1 − ρ)", x: rho, y: 1 / (1 - rho) }))
    .filter(inside);
  const window = ["gamma_low", "gamma_high"].flatMap((key) =>
    (thresholds ?? [])
      .filter((t) => t.n === n)
      .map((t) => ({ series: "own weight 0.1 and 0.9", part: key, x: t.rho, y: t[key] }))
      .filter(inside),
  );
  return [
    {
      title: `Phase diagram${n ? ` at n = ${show(n)}` : ""}`,
      caption:
        "Angle between outputs over angle between tokens: 0, all outputs have one direction; 1, each " +
        "token sees itself. γ = β/ln n is the score scale, ρ the cosine between tokens. Dotted: where the " +
        "window at this n begins and ends. Colours between the table's values are interpolated.",
      table,
      height: 420,
      x: { title: "ρ, cosine between tokens", domain: x, nice: false },
      y: { title: "γ", log: true, domain: y },
      series: [
        { name: "critical γ = 1/(1 − ρ)", colour: 1 },
        ...(window.length ? [{ name: "own weight 0.1 and 0.9", colour: 1, dash: [2, 3] }] : []),
      ],
      layers: [
        {
          kind: "tiles",
          name: "angle ratio",
          title: "angle ratio",
          domain: [0, 1],
          smooth: true,
          aside: true,
          rows: smoothed(ours, rhos, gammas, { across: x, up: y }),
        },
        {
          kind: "tiles",
          name: "angle ratio",
          unseen: true, // the table's own values, for the pointer and the CSV
          rows: ours.map((r) => ({
            x: across.get(r.rho)[0],
            x2: across.get(r.rho)[1],
            y: up.get(r.gamma)[0],
            y2: up.get(r.gamma)[1],
            value: r.angle_ratio,
            tip: [
              ["ρ", show(r.rho)],
              ["γ", show(r.gamma)],
              ["angle ratio", show(r.angle_ratio)],
              ["γ/γ_c", show(r.gamma * (1 - r.rho))],
            ],
          })),
        },
        { kind: "line", name: "window", dash: [2, 3], width: 1.6, rows: window },
        { kind: "line", name: "threshold", width: 2.6, rows: critical },
        ...regions(x, y),
      ],
    },
  ];
}

// Values between those of the table, linear in rho and in the logarithm of gamma, so that the picture is as smooth as the
// formula is.
const FINE = [60, 44];

function smoothed(rows, rhos, gammas, { across, up }) {
  const value = new Map(rows.map((r) => [`${r.rho} ${r.gamma}`, r.angle_ratio]));
  const place = (list, v) => {
    const i = Math.min(list.length - 2, Math.max(0, list.findIndex((t) => t > v) - 1));
    const at = list.findIndex((t) => t > v) < 0 ? list.length - 2 : i;
    return [at, Math.min(1, Math.max(0, (v - list[at]) / (list[at + 1] - list[at])))];
  };
  const heights = gammas.map(Math.log);
  const mix = (a, b, t) => a * (1 - t) + b * t;
  const [xs, ys] = [grid(...across, FINE[0] + 1), grid(...up, FINE[1] + 1, true)];
  return ys.slice(1).flatMap((y2, j) =>
    xs.slice(1).map((x2, i) => {
      const [a, s] = place(rhos, 0.5 * (xs[i] + x2));
      const [b, t] = place(heights, 0.5 * (Math.log(ys[j]) + Math.log(y2)));
      const of = (p, q) => value.get(`${rhos[a + p]} ${gammas[b + q]}`);
      const mean = mix(mix(of(0, 0), of(1, 0), s), mix(of(0, 1), of(1, 1), s), t);
      return { x: xs[i], x2, y: ys[j], y2, value: mean };
    }),
  );
}

// What happens on either side of the threshold, well away from it.
function regions(x, y) {
  const at = (share, list) => list[0] + share * (list[1] - list[0]);
  const [left, right] = [at(0.3, x), at(0.72, x)];
  const up = Math.sqrt(y[1] / (1 - left)),
    down = Math.sqrt(y[0] / (1 - right));
  const label = { kind: "label", size: 13, bold: true, centre: true };
  return [
    { ...label, on: "much", rows: [{ x: left, y: up, label: "each token sees itself" }] },
    { ...label, rows: [{ x: right, y: down, label: "tokens merge" }] },
  ];
}

// One for each n, the largest first.
function diagrams(cells, table, thresholds) {
  const sizes = [...new Set(cells.map((r) => r.n ?? 0))].sort((a, b) => b - a);
  const drawn = sizes.flatMap((n) => diagram(cells, n, table, thresholds).map((figure) => ({ n, figure })));
  if (drawn.length < 2) return drawn.map(({ figure }) => figure);
  return [{ label: "n:", options: drawn.map(({ n, figure }) => ({ name: show(n), figure: () => figure })) }];
}

// What a practitioner would recognise: γ against the context, with the threshold of the first ρ.
function scalings(curve, answer) {
  const kinds = [
    ["plain", "scores as trained", 0],
    ["yarn", "YaRN", 2],
    ["logn", "log n", 3],
  ];
  const names = kinds.filter(([key]) => curve?.some((r) => isNumber(r[`gamma_${key}`])));
  if (!names.length) return [];
  const tip = (r, key) => [
    ["context", show(r.n)],
    ["γ", show(r[`gamma_${key}`])],
    ["angle ratio", show(r[`angle_ratio_${key}`])],
    ["own weight", show(r[`self_weight_${key}`])],
  ];
  const threshold = isNumber(curve[0].gamma_c);
  return [
    {
      title: "Score scalings in use, against the threshold",
      caption:
        `A head that was trained with ${show(Number(answer.train))} tokens, at cosine ρ = ${show(curve[0].rho ?? Number(answer["rho.0"]))}: ` +
        "γ = β/ln n where its scores stay as they are, where they are multiplied as YaRN does, " +
        `(${show(Number(answer.yarn))} ln(n/N) + 1)², and by ln n/ln N beyond N, as Qwen's option does. ` +
        "Below the band outputs merge, above it each token sees itself.",
      table: "curves",
      x: { title: "context, tokens", log: true },
      y: { title: "γ" },
      series: [
        ...names.map(([, name, colour]) => ({ name, colour })),
        ...(threshold ? [{ name: "critical γ, and own weight 0.1 to 0.9", colour: 1 }] : []),
      ],
      layers: [
        ...(threshold
          ? [
              {
                kind: "band",
                name: "window",
                rows: curve.map((r) => ({
                  series: "critical γ, and own weight 0.1 to 0.9",
                  x: r.n,
                  lo: r.gamma_low,
                  hi: r.gamma_high,
                })),
              },
              {
                kind: "line",
                name: "threshold",
                width: 2,
                rows: curve.map((r) => ({ series: "critical γ, and own weight 0.1 to 0.9", x: r.n, y: r.gamma_c })),
              },
            ]
          : []),
        ...names.flatMap(([key, name]) => {
          const rows = curve.map((r) => ({ series: name, x: r.n, y: r[`gamma_${key}`], tip: tip(r, key) }));
          return [
            { kind: "line", name, rows },
            { kind: "points", name, size: 30, rows },
          ];
        }),
      ],
    },
  ];
}

export function collapse(run) {
  const {
    answer,
    tables: { rows, thresholds, curves: curve },
  } = run;
  const phase = diagrams(rows ?? [], run.tables.phase?.length ? "phase" : "rows", thresholds);
  const few = new Set((rows ?? []).map((r) => `${r.n} ${r.rho}`)).size <= 6;
  const times = extent((rows ?? []).map((r) => r.times));
  return [
    ...(few || !phase.length
      ? curves({
          rows,
          table: "rows",
          title: "Angle between outputs over angle between tokens",
          caption:
            "0: tokens collapse to one; 1: each sees itself." +
            `${times && times[0] < 1 && times[1] > 1 ? " They part at γ = γ_c, more sharply the larger n is." : ""}`,
          x: { key: "times", title: "γ over the critical γ" },
          y: { title: "angle ratio", zero: true },
          name: (r) => `n = ${show(r.n)}, ρ = ${show(r.rho)}`,
          measured: "angle_ratio_measured",
          law: "angle_ratio",
        })
      : []),
    ...phase,
    ...scalings(curve, answer ?? {}),
  ];
}
