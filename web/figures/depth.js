/* SPDX-License-Identifier: Apache-2.0 */
// depth.js : errors of hidden states by layer beside the linear prediction; horizons and rates of a synthetic stack.
import { isNumber, show } from "../tables.js";
import { curves } from "./curves.js";

// Run files that are older than the column have no setting.
const settingOf = (r) => r.setting ?? `${r.policy}${isNumber(r.keys) ? `, ${show(r.keys)} keys` : ""}`;

function errors(rows) {
  return curves({
    rows,
    table: "rows",
    title: "Error of hidden states by layer",
    caption:
      "In spreads: root mean square distance from the full model's states, over that of those from their mean. The law " +
      "is the linear prediction e² = gain² e² + own², from each layer's gain for small noise and its own error.",
    x: { key: "layer", title: "layer", whole: true },
    y: { title: "error, spreads", log: true },
    name: settingOf,
    measured: "error",
    law: "predicted",
  });
}

function gains(rows) {
  const x = { key: "layer", title: "layer", whole: true };
  return [
    ...curves({
      rows,
      table: "rows",
      title: "What a layer makes of small noise",
      caption:
        "Change of its output over change of its input, each in spreads, for noise on every token with the covariance of " +
        "the measured error.",
      x,
      y: { title: "gain" },
      name: settingOf,
      measured: "gain",
    }),
    ...curves({
      rows,
      table: "rows",
      title: "What a layer makes of the error as it is",
      caption: "The same for the measured error itself: as noise, while errors are small and tokens do not share them.",
      x,
      y: { title: "gain" },
      name: settingOf,
      measured: "gain_far",
    }),
  ];
}

const stackOf = (r) => `${r.norm === "none" ? "no norm" : "layer norm"}, H = ${show(r.start)}`;

function horizons(growth) {
  const rows = (growth ?? []).map((r) => ({ ...r, law: isNumber(r.horizon_exact) ? r.horizon_exact : r.horizon_sets }));
  return curves({
    rows,
    table: "growth",
    title: "Horizon after each layer",
    caption:
      "H = |S^½ A S^½| of the tokens that a layer gets. The law: without a norm the exact one of infinitely many tokens, " +
      "with layer norm that of the large sets that stand for them.",
    x: { key: "layer", title: "layers that tokens have been through", whole: true },
    y: { title: "horizon", log: true },
    name: stackOf,
    measured: "horizon",
    law: "law",
  });
}

function rates(growth) {
  return curves({
    rows: (growth ?? []).filter((r) => isNumber(r.rate)),
    table: "growth",
    title: "How fast n tokens find their limit, after each layer",
    caption: "Errors fall like n to minus this; ½ is that of a mean.",
    x: { key: "layer", title: "layers that tokens have been through", whole: true },
    y: { title: "rate" },
    name: stackOf,
    measured: "rate",
  });
}

export function depth({ tables: { rows, growth } }) {
  return [...errors(rows), ...gains(rows), ...horizons(growth), ...rates(growth)];
}
