// claims.js : measured beside predicted for the claims that are numbers.
import { isNumber, show } from "../tables.js";

const colours = { holds: 2, "does not hold": 1 };

export function claims({ tables: { claims: rows } }) {
  const numbers = (rows ?? []).filter((r) => isNumber(r.prediction) && isNumber(r.measurement) && r.measurement_se > 0);
  if (numbers.length < 2) return [];
  const z = (r) => (r.measurement - r.prediction) / r.measurement_se;
  const verdicts = [...new Set(numbers.map((r) => r.verdict))];
  return [
    {
      title: "Distance of each measurement from its prediction",
      caption: "In standard errors, one mark per claim that predicts a number. Chance alone keeps most of them within ±2.",
      table: "claims",
      height: 90 + 22 * numbers.length,
      x: { title: "(measured − predicted) / standard error" },
      y: { title: "claim", domain: [0.5, numbers.length + 0.5], ticks: numbers.length, nice: false, format: "d" },
      series: verdicts.map((name) => ({ name, colour: colours[name] ?? 4 })),
      layers: [
        { kind: "line", name: "two standard errors", plain: true, dash: [3, 3], width: 1, rows: [-2, 2].flatMap((x) => [0.5, numbers.length + 0.5].map((y, k) => ({ series: "two", part: String(x), x, y, k }))) },
        {
          kind: "points", name: "claim", size: 70,
          rows: numbers.map((r, i) => ({
            series: r.verdict, x: z(r), y: i + 1,
            tip: [["claim", String(r.id ?? i + 1)], ["predicted", show(r.prediction)], ["measured", show(r.measurement, r.measurement_se)], ["distance", `${z(r).toFixed(2)} se`]],
          })),
        },
      ],
    },
  ];
}
