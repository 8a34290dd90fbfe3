// claims.js : how far each piece of evidence is from what was predicted.
import { isNumber, show } from "../tables.js";

const FAR = 10; // standard errors; what is further stands at the edge

// Distance beyond what the prediction itself may be off by, in standard errors. What is computed, not sampled, has none:
// it is on the spot or at the edge.
function distance(r) {
  const off = r.measured - r.predicted;
  const beyond = Math.sign(off) * Math.max(0, Math.abs(off) - (r.allowance ?? 0));
  return isNumber(r.measured_se) && r.measured_se > 0 ? beyond / r.measured_se : FAR * Math.sign(beyond);
}

const colours = { holds: 2, "does not hold": 1 };

export function claims({ tables: { evidence } }) {
  const rows = (evidence ?? []).filter((r) => (r.relation === "=" || r.relation === "~") && isNumber(distance(r)));
  if (rows.length < 2) return [];
  const names = [...new Set(rows.map((r) => r.id))].reverse(); // the first on top
  const edges = [0.5, names.length + 0.5];
  const verdicts = [...new Set(rows.map((r) => r.verdict))];
  return [
    {
      title: "Distance of each measurement from its prediction",
      caption: `In standard errors, one mark for each piece of evidence that predicts a number; what the prediction itself may be off by is not counted. Chance alone keeps most within ±2; beyond ${FAR} they stand at the edge.`,
      table: "evidence",
      height: 90 + 26 * names.length,
      x: { title: "(measured − predicted) / standard error", domain: [-FAR - 0.5, FAR + 0.5], nice: false },
      y: { title: null, names, domain: edges, nice: false },
      series: verdicts.map((name) => ({ name, colour: colours[name] ?? 4 })),
      layers: [
        {
          kind: "line",
          name: "two standard errors",
          plain: true,
          dash: [3, 3],
          width: 1,
          rows: [-2, 2].flatMap((x) => edges.map((y, k) => ({ part: String(x), x, y, k }))),
        },
        {
          kind: "points",
          name: "evidence",
          size: 60,
          rows: rows.map((r) => ({
            series: r.verdict,
            claim: r.id,
            x: Math.max(-FAR, Math.min(FAR, distance(r))),
            y: names.indexOf(r.id) + 1,
            tip: [
              ["claim", r.id],
              ["what", r.label],
              ["predicted", show(r.predicted)],
              ["measured", show(r.measured, r.measured_se)],
              ["distance", `${distance(r).toFixed(2)} se`],
            ],
          })),
        },
      ],
    },
  ];
}
