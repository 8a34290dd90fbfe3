// probe.js : what each head of a model does, layer by layer.
import { heatMap } from "./heat-map.js";

const values = [
  { key: "horizon", title: "horizon H", caption: "Small: the head has converged at short context. Large: it will not, at any." },
  { key: "rate_mean", title: "rate of the mean", caption: "Error of the head's mean output ∼ n^−rate; ½ is the rate of independent samples." },
  { key: "entropy", title: "entropy, nats", caption: "Of a row of attention weights, averaged over queries." },
];

export function probe({ tables: { heads } }) {
  return values.flatMap((value) =>
    heatMap({
      rows: heads, table: "heads", title: `Heads by ${value.title}`, caption: value.caption,
      x: { key: "head", title: "head" }, y: { key: "layer", title: "layer" }, value,
      more: [{ key: "coupling", title: "coupling" }, { key: "ess", title: "effective tokens" }],
    }),
  );
}
