// domains.js : where a model's heads behave differently on another kind of text.
import { groupBy, isNumber, show } from "../tables.js";

const Z = 1.96;
const series = [
  { name: "differs", colour: 1 },
  { name: "within noise", colour: 7 },
];

// One figure for each domain that was compared with the first.
export function domainFigures(differences) {
  return groupBy(
    differences.filter((r) => isNumber(r.ratio)),
    "domain",
  ).map(([domain, rows]) => {
    const against = rows[0].against;
    const widest = Math.max(1, ...rows.map((r) => r.head));
    const layers = Math.max(...rows.map((r) => r.layer));
    const each = (f) =>
      rows.map((r) => ({
        series: series[r.differs === "yes" ? 0 : 1].name,
        x: r.layer + 0.7 * (r.head / widest - 0.5),
        ...f(r),
      }));
    return {
      title: `Errors on ${domain} over those on ${against}`,
      caption:
        "Ratio of relative errors of single outputs at the largest n, one mark for each head, heads side by side within their layer, with 95 % intervals. Differs: p below 0.01 after as many tests as there are heads.",
      table: "differences",
      x: { title: "layer", domain: [-0.5, layers + 0.5], nice: false },
      y: { title: `${domain} / ${against}`, log: true },
      series: series.filter(({ name }, i) => rows.some((r) => (r.differs === "yes") === (i === 0))),
      layers: [
        {
          kind: "line",
          name: "alike",
          plain: true,
          dash: [4, 3],
          width: 1,
          rows: [-0.5, layers + 0.5].map((x) => ({ x, y: 1 })),
        },
        {
          kind: "bars",
          name: "95 % interval",
          rows: each((r) => ({ lo: r.ratio - Z * r.ratio_se, hi: r.ratio + Z * r.ratio_se })),
        },
        {
          kind: "points",
          name: "heads",
          rows: each((r) => ({
            y: r.ratio,
            tip: [
              ["head", `layer ${r.layer}, head ${r.head}`],
              ["ratio", show(r.ratio, r.ratio_se)],
              ["p", show(r.p)],
            ],
          })),
        },
      ],
    };
  });
}
