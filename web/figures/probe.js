// probe.js : what each head of a model does, layer by layer, in each domain of text.
import { groupBy } from "../tables.js";
import { heatMap } from "./heat-map.js";

const values = [
  { key: "horizon", title: "horizon H", caption: "Scores that spread by H or more let a few tokens carry the sum." },
  {
    key: "rate_map",
    title: "rate of single outputs",
    caption: "Error ∼ n^−rate, measured on this text; ½ is the rate of independent samples.",
  },
  { key: "entropy", title: "entropy, nats", caption: "Of a row of attention weights, averaged over queries." },
];

const more = [
  { key: "score_sd", title: "spread of scores" },
  { key: "rate_map_predicted", title: "predicted rate" },
  { key: "ess", title: "effective tokens" },
];

export function probe({ tables: { heads } }) {
  const domains = groupBy(heads ?? [], "domain");
  return domains.flatMap(([domain, rows]) =>
    values.flatMap((value) =>
      heatMap({
        rows,
        table: "heads",
        title: `Heads by ${value.title}${domains.length > 1 ? `: ${domain}` : ""}`,
        caption: value.caption,
        x: { key: "head", title: "head" },
        y: { key: "layer", title: "layer" },
        value,
        more,
      }),
    ),
  );
}
