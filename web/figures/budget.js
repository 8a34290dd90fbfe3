// budget.js : errors against the share of keys that is kept, by policy and by way of sharing out; predicted and verified
// errors by layer; what each head keeps.
import { isNumber } from "../tables.js";
import { curves } from "./curves.js";
import { heatMap } from "./heat-map.js";

// Every way at every share that was asked for: what was verified, and what was predicted.
function ways(rows) {
  const tried = (rows ?? []).some((r) => isNumber(r.state));
  return curves({
    rows,
    table: "allocations",
    title: "Error of the last hidden state by way of sharing out",
    caption: tried
      ? "In spreads, on text that the plan was not made from; the law is what was predicted. Every way has as many keys, " +
        "and each head's best policy."
      : "In spreads; the law is what is predicted. Every way has as many keys, and each head's best policy.",
    x: { key: "asked", title: "share of the keys", log: true },
    y: { title: "error, spreads", log: true },
    name: (r) => r.allocation,
    measured: "state",
    law: "state_predicted",
  });
}

function frontier(rows) {
  return curves({
    rows,
    table: "frontier",
    title: "Predicted error against keys, by policy",
    caption:
      "Error of the last hidden state in spreads, keys shared out by marginal risk. The limit is that of rules that keep " +
      "their keys independently, to first order: biased rules, such as the largest weights, may lie below it.",
    x: { key: "asked", title: "share of the keys", log: true },
    y: { title: "predicted error, spreads", log: true },
    name: (r) => r.by,
    law: "state",
  });
}

function losses(rows) {
  return curves({
    rows: (rows ?? []).filter((r) => isNumber(r.loss)),
    table: "allocations",
    title: "Extra loss by way of sharing out",
    caption: "Nats per token over late positions of a block, on text that the plan was not made from; the law is predicted.",
    x: { key: "asked", title: "share of the keys", log: true },
    y: { title: "extra loss, nats" },
    name: (r) => r.allocation,
    measured: "loss",
    law: "loss_predicted",
  });
}

function layers(rows) {
  const tried = (rows ?? []).some((r) => isNumber(r.verified));
  return curves({
    rows,
    table: "layers",
    title: "Error of each layer's attention",
    caption:
      "Of its output, given the full model's state, in spreads" +
      (tried ? ", on other text; the law is what was predicted." : "; the law is what is predicted."),
    x: { key: "layer", title: "layer", whole: true },
    y: { title: "error, spreads" },
    name: () => "the plan",
    measured: "verified",
    law: "predicted",
  });
}

function heads(rows) {
  return heatMap({
    rows,
    table: "heads",
    title: "Keys that each head keeps",
    caption: "Heads of a group share keys and values, and keep as many.",
    x: { key: "head", title: "head" },
    y: { key: "layer", title: "layer" },
    value: { key: "keys", title: "keys" },
    more: [
      { key: "risk", title: "risk" },
      { key: "ess", title: "effective keys" },
      { key: "need", title: "keys of 95 % of the weight" },
      { key: "sinks", title: "weight of the first four keys" },
    ],
  });
}

export function budget({ tables: { allocations, frontier: points, layers: rows, heads: each } }) {
  return [...ways(allocations), ...heads(each), ...layers(rows), ...losses(allocations), ...frontier(points)];
}
