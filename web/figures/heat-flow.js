// heat-flow.js : attention over keys on the sphere as a step of backward heat flow (esscher heat).
import { curves } from "./curves.js";

export function heatFlow({ tables: { rows } }) {
  return curves({
    rows, table: "rows", title: "Drift of a query against the gradient of the log-density",
    caption: "Slope of β times the drift on ∇ log f; it tends to 1 as the inverse temperature grows.",
    x: { key: "beta", title: "β", log: true }, y: { title: "slope" },
    name: () => "slope", measured: "slope", law: "slope_exact",
  });
}
