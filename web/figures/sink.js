/* SPDX-License-Identifier: Apache-2.0 */
// sink.js : weight of a sink token against its score.
import { groupBy, isNumber, show } from "../tables.js";
import { curves } from "./curves.js";

const leading = { name: "leading form", colour: 7, dash: [6, 4] };

export function sink({ tables: { rows } }) {
  const several = new Set((rows ?? []).map((r) => r.n)).size > 1;
  const [figure] = curves({
    rows,
    table: "rows",
    title: "Weight of a sink against its score",
    caption:
      "The sink's score is counted from the threshold ln n + q²/2, where it takes half of the weight as long as q² " +
      "is far below 2 ln n. The law is the exact expectation. Dashed: 1/(1 + e^−offset), the leading form, in " +
      "which the sum over the keys is at its mean; where scores spread wider, that sum is mostly smaller and the " +
      "sink takes more.",
    x: { key: "offset", title: "score of the sink − (ln n + q²/2), nats" },
    y: { title: "weight of the sink", log: true },
    name: (r) => `${several ? `n = ${show(r.n)}, ` : ""}q = ${show(r.spread)}`,
    measured: "weight",
    law: "weight_exact",
  });
  const form = groupBy(rows ?? [], "offset").flatMap(([x, [{ weight_leading: y }]]) =>
    isNumber(y) ? [{ series: leading.name, x, y }] : [],
  );
  if (!figure || form.length < 2) return figure ? [figure] : [];
  return [
    {
      ...figure,
      series: [...figure.series, leading],
      layers: [
        ...figure.layers.filter((l) => l.kind === "line"),
        { kind: "line", name: leading.name, dash: leading.dash, width: 2.2, rows: form },
        ...figure.layers.filter((l) => l.kind !== "line"),
      ],
    },
  ];
}
