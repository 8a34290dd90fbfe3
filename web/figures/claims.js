/* SPDX-License-Identifier: Apache-2.0 */
// claims.js : how far each piece of evidence is from what was predicted.
import { groupBy, isNumber, show } from "../tables.js";

const FAR = 10; // standard errors; what is further stands at the edge

// Distance beyond what the prediction itself may be off by, in standard errors. What is computed, not sampled, has none:
// it is on the spot or at the edge.
function distance(r) {
  const off = r.measured - r.predicted;
  const beyond = Math.sign(off) * Math.max(0, Math.abs(off) - (r.allowance ?? 0));
  return isNumber(r.measured_se) && r.measured_se > 0 ? beyond / r.measured_se : FAR * Math.sign(beyond);
}

// Words of the three groups; an assumption that does not hold is expected to fail.
const styles = {
  consistent: { colour: 2, shape: "circle" },
  contradicted: { colour: 1, shape: "cross" },
  confirmed: { colour: 0, shape: "circle" },
  "not confirmed": { colour: 1, shape: "cross" },
  holds: { colour: 5, shape: "circle" },
  "does not hold": { colour: 3, shape: "cross" },
};
const styleOf = (verdict) => styles[verdict] ?? { colour: 4, shape: "diamond" };
const failed = new Set(["contradicted", "not confirmed", "does not hold"]);

// A bound points to where it allows the measurement to be, and is filled where it fails.
const relations = [
  { of: (relation) => relation === ">=" || relation === ">", name: "at least", shape: "triangle-right" },
  { of: (relation) => relation === "<=" || relation === "<", name: "at most", shape: "triangle-left" },
  { of: () => true, name: "a number" },
];
const relationOf = (r) => relations.find(({ of }) => of(r.relation)).name;
const signs = { ">=": "≥", "<=": "≤", "~": "≈" };

// Marks of one claim lie below each other within its line, so that none hides another.
function lines(rows) {
  const groups = groupBy(rows, "id").reverse(); // the first on top
  const at = new Map();
  groups.forEach(([, of], line) =>
    of.forEach((r, i) => at.set(r, line + 1 + (of.length > 1 ? 0.6 * (0.5 - i / (of.length - 1)) : 0))),
  );
  return { names: groups.map(([id]) => id), at };
}

export function claims({ tables: { evidence: rows = [] } }) {
  if (!rows.some((r) => isNumber(distance(r)))) return [];
  const { names, at } = lines(rows);
  const edges = [0.5, names.length + 0.5];
  const verdicts = [...new Set(rows.map((r) => r.verdict))];
  const mark = (r) => ({
    series: r.verdict,
    claim: r.id,
    relation: r.relation,
    x: isNumber(distance(r)) ? Math.max(-FAR, Math.min(FAR, distance(r))) : null,
    y: at.get(r),
    tip: [
      ["claim", r.id],
      ["what", r.label],
      ["predicted", `${signs[r.relation] ?? r.relation} ${show(r.predicted)}`],
      ["measured", show(r.measured, r.measured_se)],
      ["distance", isNumber(distance(r)) ? `${distance(r).toFixed(2).replace("-", "−")} se` : "–"],
    ],
  });
  const kinds = relations.filter(({ name }) => rows.some((r) => relationOf(r) === name));
  return [
    {
      verdicts: true,
      title: "Distance of each measurement from its prediction",
      caption: `In standard errors, one mark for each piece of evidence, below each other where a claim has several; what the prediction itself may be off by is not counted.${kinds.length > 1 ? " Triangles: a bound, and they point to the side where the measurement should be; filled, it is not there. Other marks: a number is predicted, and chance alone keeps most within ±2." : " Chance alone keeps most within ±2."} Beyond ${FAR}, and where nothing is left to chance, they stand at the edge.`,
      table: "evidence",
      wide: true,
      height: 90 + 26 * names.length,
      x: { title: "(measured − predicted) / standard error", domain: [-FAR - 0.5, FAR + 0.5], nice: false },
      y: { title: null, names, domain: edges, nice: false },
      series: verdicts.map((name) => ({ name, ...styleOf(name) })),
      layers: [
        {
          kind: "line",
          name: "two standard errors",
          plain: true,
          dash: [3, 3],
          width: 1,
          rows: [-2, 2].flatMap((x) => edges.map((y, k) => ({ part: String(x), x, y, k }))),
        },
        ...kinds.flatMap(({ name, shape }) =>
          [false, true].map((broken) => ({
            kind: "points",
            name: `evidence: ${name}`,
            shape,
            hollow: shape && !broken,
            size: 52,
            rows: rows.filter((r) => relationOf(r) === name && failed.has(r.verdict) === broken).map(mark),
          })),
        ),
      ],
    },
  ];
}
