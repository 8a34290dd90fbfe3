// context-fit.js : loss against context, its fitted curve, and what the curve says beyond.
import { isNumber, show } from "../tables.js";

const Z = 1.96;

export function contextFit({ tables: { points, predictions } }) {
  if (!points?.length) return [];
  const beyond = (predictions ?? []).filter((r) => isNumber(r.loss_se));
  return [
    {
      title: "Loss against context",
      caption: "Points: given. Line: L(c) = (α/c)^β + γ, fitted robustly. Bars: predictions with 95 % intervals, to first order.",
      table: "points",
      x: { title: "context, tokens", log: true }, y: { title: "loss" },
      series: [{ name: "given", colour: 0 }, { name: "fitted", colour: 7 }, ...(beyond.length ? [{ name: "predicted", colour: 1 }] : [])],
      layers: [
        { kind: "line", name: "fitted", rows: points.map((r) => ({ series: "fitted", x: r.context, y: r.fitted })) },
        { kind: "bars", name: "95 % interval", rows: beyond.map((r) => ({ series: "predicted", x: r.context, lo: r.loss - Z * r.loss_se, hi: r.loss + Z * r.loss_se })) },
        { kind: "points", name: "predicted", hollow: true, rows: beyond.map((r) => ({ series: "predicted", x: r.context, y: r.loss, tip: [["context", show(r.context)], ["loss", show(r.loss, r.loss_se)], ["beyond", show(r.beyond)]] })) },
        { kind: "points", name: "given", rows: points.map((r) => ({ series: "given", x: r.context, y: r.loss, tip: [["context", show(r.context)], ["loss", show(r.loss)], ["fitted", show(r.fitted)], ["weight", show(r.weight)]] })) },
      ],
    },
  ];
}
